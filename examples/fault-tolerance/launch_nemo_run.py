#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Submit train.py to Slurm through NeMo-Run, with the settings under which its FaultTolerancePlugin works.

    python3 launch_nemo_run.py --account A --partition P --image IMAGE [--dryrun]

Needs NeMo-Run and Megatron Bridge where it is started. (Not called nemo_run.py: it would then import itself.)
"""

import argparse
from pathlib import Path

import nemo_run as run
from megatron.bridge.recipes.run_plugins import FaultTolerancePlugin, FaultTolerancePluginScriptArgs

HERE = Path(__file__).resolve().parent


def overrides(args: FaultTolerancePluginScriptArgs) -> list[str]:
    """Overrides that work whether or not the script sets cfg.ft: the plugin's own fail where it is None."""
    return [
        "++ft._target_=megatron.bridge.training.config.FaultToleranceConfig",
        f"++ft.enable_ft_package={str(args.enable_ft_package).lower()}",
        f"++ft.calc_ft_timeouts={str(args.calc_ft_timeouts).lower()}",
    ]


def fault_tolerance() -> FaultTolerancePlugin:
    """The plugin without its defaults, which kill healthy jobs."""
    return FaultTolerancePlugin(
        # Bridge sends no heartbeats: with 1800, the default, every rank is killed after 30 minutes.
        initial_rank_heartbeat_timeout=None,
        rank_heartbeat_timeout=None,
        calc_ft_timeouts=False,
        num_in_job_restarts=3,
        num_job_retries_on_failure=2,
        script_args_converter_fn=overrides,
    )


def slurm(args: argparse.Namespace) -> run.SlurmExecutor:
    """Two nodes of eight GPUs; this folder is on storage that every node sees, at the same path in the container."""
    return run.SlurmExecutor(
        account=args.account,
        partition=args.partition,
        nodes=2,
        ntasks_per_node=8,
        gpus_per_node=8,
        time="04:00:00",
        container_image=args.image,
        container_mounts=[f"{HERE}:{HERE}"],
        # NeMo-Run passes --wait=60 --kill-on-bad-exit=1: one launcher's exit would end the others. Later ones count.
        srun_args=["--kill-on-bad-exit=0", "--wait=0"],
        env_vars={
            # The plugin has no section timeouts; ft_launcher reads them from here. Without them no hang is found.
            "PET_FT_CFG_PATH": str(HERE / "ft.yaml"),
            "CHECKPOINT_DIR": str(HERE / "checkpoints"),
        },
        packager=run.Packager(),
        tunnel=run.LocalTunnel(job_dir=str(HERE / "nemo_run_jobs")),
    )


def main() -> None:
    """Submit the job, or print what would be submitted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--account", required=True)
    parser.add_argument("--partition", required=True)
    parser.add_argument("--image", required=True, help="NeMo container that has Megatron Bridge")
    parser.add_argument("--dryrun", action="store_true", help="print the Slurm script, submit nothing")
    args = parser.parse_args()
    with run.Experiment("ft-example") as experiment:
        # train.py makes the file that ends NeMo-Run's requeueing, see there.
        experiment.add(
            run.Script(path=str(HERE / "train.py"), entrypoint="python"),
            executor=slurm(args),
            plugins=[fault_tolerance()],
        )
        if args.dryrun:
            experiment.dryrun()
        else:
            experiment.run(detach=True)


if __name__ == "__main__":
    main()
