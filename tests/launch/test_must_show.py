# SPDX-License-Identifier: Apache-2.0
"""What the checker is for: published set-ups that do not work are reported, the one that works is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from mbridge_resiliency.launch.check import Checked, check
from mbridge_resiliency.launch.read import job_of
from mbridge_resiliency.launch.rules import Versions

HERE = Path(__file__).parent / "published"
CORRECT, TRAIN, COMMAND, PLUGIN = (
    (HERE / name).read_text() for name in ("correct.sh", "train.py", "command.sh", "plugin.py")
)


def checked(files: dict[str, str]) -> Checked:
    return check(job_of(files), Versions())


def rules(files: dict[str, str]) -> set[str]:
    return {finding.rule for finding in checked(files).findings}


@pytest.mark.parametrize(
    "files", [{"job.sh": CORRECT}, {"job.sh": CORRECT, "train.py": TRAIN}], ids=["alone", "with script"]
)
def test_the_correct_command_has_no_finding(files: dict[str, str]) -> None:
    assert rules(files) == set()


def test_the_correct_job_is_checked_whole() -> None:
    result = checked({"job.sh": CORRECT, "train.py": TRAIN})
    unset = "job.sh:2: $N, $JOBID are not set in these files; if one is empty the nodes never meet"
    assert result.measured and result.not_checked == [unset]
    assert checked({"job.sh": "N=2 JOBID=run1\n" + CORRECT, "train.py": TRAIN}).not_checked == []


def test_the_published_command_is_reported_with_its_faults() -> None:
    assert rules({"job.sh": COMMAND}) == {"no-restarts", "no-warmup-section", "group-rank-fixed"}


def test_the_published_plugin_is_reported_with_its_faults() -> None:
    assert rules({"run.py": PLUGIN}) == {
        "plugin-heartbeats",
        "plugin-without-sections",
        "plugin-overrides-empty-slot",
        "plugin-requeues-for-ever",
    }


def test_each_fix_of_the_command_silences_its_rule() -> None:
    fixed = COMMAND.replace("export GROUP_RANK=0\n", "")
    for finding in checked({"job.sh": COMMAND}).findings:
        if finding.rule == "no-restarts":
            fixed = fixed.replace("ft_launcher", f"ft_launcher {finding.fix}")
        elif finding.rule == "no-warmup-section":
            fixed = fixed.replace("--ft-rank_section_timeouts=setup:600,step:180,checkpointing:420", finding.fix)
    assert rules({"job.sh": fixed}) == set()


@pytest.mark.parametrize(
    "text",
    [
        "torchrun --nproc-per-node=8 --nnodes=$N train.py --max_restarts=30\n",
        "#!/bin/bash\n#SBATCH --nodes=48\n#SBATCH --ntasks-per-node=1\n"
        'export LAUNCHER="python -u -m torch.distributed.launch --nproc_per_node 4 --nnodes $NNODES"\n'
        'srun --jobid $SLURM_JOBID bash -c "$LAUNCHER pretrain_gpt.py $options" 2>&1 | tee -a log.txt\n'
        "echo END TIME: $(date)\n",
        "#!/bin/bash\n#SBATCH --kill-on-bad-exit=1\nsrun --kill-on-bad-exit=1 python train.py --no-load-optim\n",
        "deepspeed --num_gpus 8 train.py\n",
    ],
    ids=["torchrun", "an array of array jobs", "srun python", "deepspeed"],
)
def test_jobs_without_fault_tolerance_have_no_finding(text: str) -> None:
    result = checked({"job.sh": text})
    assert result.findings == [] and result.measured
    assert any("no ft_launcher and no ft settings in the files that" in reason for reason in result.not_checked)


def test_what_would_tell_whether_fault_tolerance_is_on_is_asked_for() -> None:
    trainer = TRAIN.replace("cfg.ft = FaultToleranceConfig(enable_ft_package=True)\n", "")
    launcher = "job.sh:1: whether fault tolerance is on: train.py was not given; give it too"
    assert launcher in checked({"job.sh": "torchrun --nproc-per-node=8 train.py\n"}).not_checked
    conversion = checked({"job.sh": "torchrun --nproc-per-node=8 convert_checkpoint.py\n"})
    assert not any("whether" in reason for reason in conversion.not_checked)
    assert "train.py:1: what starts train.py was not given; give it too" in checked({"train.py": trainer}).not_checked


def test_a_nemo_run_script_alone_asks_for_the_training_script() -> None:
    text = PLUGIN.replace("scripts/training/run_recipe.py", "pretrain.py")
    assert any("pretrain.py was not given; give it too" in reason for reason in checked({"run.py": text}).not_checked)


@pytest.mark.parametrize(
    ("launch", "fix"),
    [
        (
            "torchrun --nnodes=$NNODES --nproc-per-node=8 --node-rank=$RANK --master-addr=$HEAD --master-port=6000 "
            "train.py --config 'a b.yaml' $MORE",
            "ft_launcher --nnodes=$NNODES --nproc-per-node=8 --max-restarts=3 --rdzv-backend=c10d "
            "--rdzv-endpoint=$HEAD:6000 --rdzv-id=$JOB_ID OPTIONS train.py --config 'a b.yaml' $MORE",
        ),
        (
            "torchrun --standalone --nproc-per-node=4 -m my.train --steps 10",
            "ft_launcher --nnodes=1 --nproc-per-node=4 --max-restarts=3 OPTIONS -m my.train --steps 10",
        ),
        (
            "ARGS=(--nnodes $N --nproc_per_node 8 --rdzv_id $ID --rdzv_endpoint $HEAD:29500)\n"
            'torchrun "${ARGS[@]}" train.py "${MORE[@]}" --steps 10',
            "ft_launcher --nnodes=$NUM_NODES --nproc-per-node=8 --max-restarts=3 --rdzv-backend=c10d "
            '--rdzv-endpoint=$MASTER_ADDR:29500 --rdzv-id=$JOB_ID OPTIONS train.py "${MORE[@]}" --steps 10',
        ),
        (
            'HEAD=$(hostname)\nbash -c "torchrun --nnodes=2 --nproc-per-node=8 --rdzv-endpoint=$HEAD:1 train.py $HEAD"',
            "ft_launcher --nnodes=2 --nproc-per-node=8 --max-restarts=3 --rdzv-backend=c10d "
            "--rdzv-endpoint=$MASTER_ADDR:29500 --rdzv-id=$JOB_ID OPTIONS train.py ...",
        ),
        (
            "srun --nodes=2 --ntasks-per-node=8 python -u train.py",
            'head_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'
            "   # in the batch script, before srun\n"
            "srun --ntasks-per-node=1 --kill-on-bad-exit=0 ft_launcher --nnodes=$SLURM_NNODES --nproc-per-node=8 "
            "--max-restarts=3 --rdzv-backend=c10d --rdzv-endpoint=$head_node:29500 --rdzv-id=$SLURM_JOB_ID OPTIONS "
            "train.py",
        ),
    ],
    ids=["several nodes", "one node", "an array", "an inner shell", "srun python"],
)
def test_the_fix_of_another_launcher_is_the_users_own_command(launch: str, fix: str) -> None:
    options = "--ft-rank-section-timeouts=setup:600,step:180,checkpointing:420,warmup:600 "
    options += "--ft-rank-out-of-section-timeout=600"
    files = {"job.sh": launch + "\n", "train.py": TRAIN, "my/train.py": TRAIN}
    [found] = [f for f in checked(files).findings if f.rule == "not-started-by-ft-launcher"]
    assert found.fix.replace(options, "OPTIONS") == fix


def test_a_variable_that_an_inner_shell_gets_from_outside_is_not_called_unset() -> None:
    text = 'HEAD=$(hostname)\nbash -c "ft_launcher --nnodes=2 --rdzv-endpoint=$HEAD:1 --rdzv-id=$RUN train.py"\n'
    assert not any("HOLE" in reason for reason in checked({"job.sh": text}).not_checked)


def test_the_flag_file_fix_can_be_pasted() -> None:
    [found] = [f for f in checked({"run.py": PLUGIN}).findings if f.rule == "plugin-requeues-for-ever"]
    compile(found.fix, "train.py", "exec")


def test_the_converter_fix_can_be_pasted_and_is_the_guides() -> None:
    [found] = [f for f in checked({"run.py": PLUGIN}).findings if f.rule == "plugin-overrides-empty-slot"]
    overrides = eval(f"dict({found.fix})")["script_args_converter_fn"](None)
    guide = (Path(__file__).resolve().parents[2] / "references" / "fault-tolerance.md").read_text()
    assert len(overrides) == 2 and all(f'"{override}",' in guide for override in overrides)
    assert "plugin-overrides-empty-slot" not in rules(
        {"run.py": PLUGIN.replace("calc_ft_timeouts=True", f"calc_ft_timeouts=True, {found.fix}")}
    )


def test_without_the_training_script_nothing_is_said_of_its_configuration() -> None:
    result = checked({"job.sh": CORRECT})
    assert result.findings == []
    assert any("train.py was not given" in reason for reason in result.not_checked)
