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
    assert result.measured and result.not_checked == []


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
    assert any("fault tolerance is not used" in reason for reason in result.not_checked)


def test_without_the_training_script_nothing_is_said_of_its_configuration() -> None:
    result = checked({"job.sh": CORRECT})
    assert result.findings == []
    assert any("train.py was not given" in reason for reason in result.not_checked)
