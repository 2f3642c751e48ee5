# SPDX-License-Identifier: Apache-2.0
"""The small training job as data. The runner writes it into the drill's folder, every rank reads it there."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

#: Data-parallel ranks of every drill. Two, because a sum of two numbers has one order (see model.undisturbed).
WORLD_SIZE = 2

# Where things stand, relative to the drill's folder, which is every process's working directory.
JOB_FILE = Path("job.json")
LOGS = Path("logs")  # all that check_logs sees
CHECKPOINTS = Path("checkpoints")
TRACKER = CHECKPOINTS / "latest_checkpointed_iteration.txt"  # as Bridge's
FT_STATE = CHECKPOINTS / "ft_state.json"  # learned timeouts, where Bridge keeps them
TRUTH = Path("truth")  # what really happened, told by the ranks; check_logs never sees it


@dataclass(frozen=True)
class Fault:
    """What breaks, and where.

    Attributes:
        kind: a key of faults.KINDS.
        rank: the global rank that it breaks.
        iteration: the iteration being computed or saved, counted from 1 as the logs do.
        where: "step" (between forward and gradient reduction) or "checkpoint" (inside a save).
        every_cycle: it comes back after each restart.
    """

    kind: str
    rank: int
    iteration: int
    where: str = "step"
    every_cycle: bool = False


@dataclass(frozen=True)
class Job:
    """Settings of the training job.

    Attributes:
        iterations: length of the whole run.
        iteration_seconds: idle time in each iteration, standing for the GPU's work.
        setup_seconds: idle time inside the "setup" section, standing for building model and data.
        save_interval: iterations between saves.
        calc_ft_timeouts: Bridge's ft.calc_ft_timeouts.
        exit_signal_handler: Bridge's train.exit_signal_handler: save and stop on SIGTERM.
        bridge: drive Bridge's fault-tolerance callbacks; otherwise the same section calls on NVRx alone.
        seed: of weights and data.
        fault: None is the undisturbed run.
    """

    iterations: int = 30
    iteration_seconds: float = 0.06
    setup_seconds: float = 0.0
    save_interval: int = 10
    calc_ft_timeouts: bool = False
    exit_signal_handler: bool = False
    bridge: bool = True
    seed: int = 1234
    fault: Fault | None = None

    @property
    def needs_bridge(self) -> bool:
        """True if it asks for what NVRx alone does not have."""
        return self.calc_ft_timeouts or self.exit_signal_handler

    def write(self, folder: Path) -> None:
        """Write the job into the drill's folder."""
        (folder / JOB_FILE).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path = Path()) -> Job:
        """The job of the drill in this folder."""
        settings = json.loads((folder / JOB_FILE).read_text(encoding="utf-8"))
        fault = settings.pop("fault")
        return cls(fault=Fault(**fault) if fault else None, **settings)
