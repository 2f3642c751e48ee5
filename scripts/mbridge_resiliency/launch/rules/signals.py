# SPDX-License-Identifier: Apache-2.0
"""Signals that are meant to let the ranks save, and end the rank monitors instead."""

from __future__ import annotations

from collections.abc import Iterator

from ..model import Job, known
from . import Hit, Unsure, Versions, rule
from .nemo_run import PLUGIN


@rule(
    "signal-ends-monitors",
    title="A signal to the whole job step ends the rank monitors",
    why="The rank monitors end on it at once, and the ranks fail in their orderly stop: nothing is saved.",
    fix="Let the job end itself with train.exit_duration_in_mins, set below the time limit so that a save still fits.",
    facts=("nvrx.signal.ends-the-monitor", "slurm.signal-reaches-steps"),
)
def signal_ends_monitors(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """`--signal` without `B:` around ft_launcher, or PreemptionPlugin beside FaultTolerancePlugin under Slurm."""
    instead = "train.exit_duration_in_mins=MINUTES   # below --time, with room for a save; no --signal"
    seen = set()
    for launch in job.ft_launches():
        value = launch.directives.get("signal") if launch.directives else None
        if not known(value) or not value or ":" in str(value) or id(launch.directives) in seen:
            continue
        seen.add(id(launch.directives))
        yield Hit(launch.place, f"#SBATCH --signal={value}: every process of the step gets it", instead)
    for python in job.python:
        called = {call.name: call for call in python.calls}
        if {PLUGIN, "PreemptionPlugin", "SlurmExecutor"} <= called.keys():
            problem = f"PreemptionPlugin with {PLUGIN}: Slurm signals every process of the step"
            yield Hit(called["PreemptionPlugin"].place, problem, instead)
