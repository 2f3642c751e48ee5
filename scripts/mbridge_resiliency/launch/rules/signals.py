# SPDX-License-Identifier: Apache-2.0
"""Signals that are meant to let the ranks save, and end the rank monitors instead."""

from __future__ import annotations

from collections.abc import Iterator

from ..model import Job, known
from . import Hit, Unsure, Versions, rule
from .reading import PLUGIN


@rule(
    "signal-ends-monitors",
    title="A signal to the whole job step ends the rank monitors",
    why="The rank monitors end on it, and the ranks fail in their orderly stop: the job ends with 1, and whether the "
    "save comes through before that is a race.",
    fix="Let the job end itself with train.exit_duration_in_mins, below the time limit with room for a save; it counts "
    "from the start of the cycle (a restart begins it again), so keep save_interval short.",
    facts=("nvrx.signal.ends-the-monitor", "slurm.signal-reaches-steps", "preemption.duration.clock"),
)
def signal_ends_monitors(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """`--signal` without `B:` around ft_launcher, or PreemptionPlugin beside FaultTolerancePlugin under Slurm."""
    instead = "cfg.train.exit_duration_in_mins = MINUTES   # in the training script: below --time, with room for a save"
    seen = set()
    for launch in job.ft_launches():
        value = launch.directives.get("signal") if launch.directives else None
        if not known(value) or not value or ":" in str(value) or id(launch.directives) in seen:
            continue
        seen.add(id(launch.directives))
        problem = f"#SBATCH --signal={value}: every process of the step gets it"
        yield Hit(launch.place, problem, f"{instead}\n# and remove `#SBATCH --signal`")
    for python in job.python:
        called = {call.name: call for call in python.calls}
        if {PLUGIN, "PreemptionPlugin", "SlurmExecutor"} <= called.keys():
            problem = f"PreemptionPlugin with {PLUGIN}: Slurm signals every process of the step"
            yield Hit(called["PreemptionPlugin"].place, problem, f"{instead}\n# and remove PreemptionPlugin")
