# SPDX-License-Identifier: Apache-2.0
"""The faults, each one function that runs in the rank it breaks."""

from __future__ import annotations

import os
import signal
import time
from types import FrameType
from typing import Callable, Sequence

from . import processes
from .job import TRUTH, Fault

_FIRED = TRUTH / "fired"


def stop() -> None:
    """Stop the process as SIGSTOP does: it neither computes nor runs a handler, like a rank stuck in a driver call."""
    os.kill(os.getpid(), signal.SIGSTOP)


def hang() -> None:
    """Wait for ever in Python: threads and signal handlers still run."""
    while True:
        time.sleep(3600)


def kill() -> None:
    """End the process at once, as the kernel's out-of-memory killer does."""
    os.kill(os.getpid(), signal.SIGKILL)


def fail() -> None:
    """Raise what a failed read raises."""
    raise OSError(5, "Input/output error")


def leave() -> None:
    """Exit with code 0 in the middle of the run, as Bridge does where a checkpoint's state cannot be restored."""
    raise SystemExit


def stop_job() -> None:
    """Ask the launcher to stop, as a scheduler does that takes the nodes back; go on once it has told this rank."""
    _sigterm([os.getppid()])


def stop_everyone() -> None:
    """Send SIGTERM to every process of the job, as Slurm does with a step; go on once this rank has got it."""
    _sigterm(processes.marked(os.environ[processes.MARK]))


def _sigterm(pids: Sequence[int]) -> None:
    told = []
    own = signal.getsignal(signal.SIGTERM)

    def note(number: int, frame: FrameType | None) -> None:
        own(number, frame)
        told.append(number)

    signal.signal(signal.SIGTERM, note)
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    while not told:
        time.sleep(0.01)
    signal.signal(signal.SIGTERM, own)


def lose_node() -> None:
    """End every process of this node: launcher, rank monitors and ranks, this one last."""
    processes.end(os.environ[processes.MARK], spare=os.getpid())
    kill()


KINDS: dict[str, Callable[[], None]] = {
    "stopped": stop,
    "hang": hang,
    "killed": kill,
    "exception": fail,
    "exit-zero": leave,
    "sigterm": stop_job,
    "sigterm-everyone": stop_everyone,
    "node-lost": lose_node,
}


def fire_if_due(fault: Fault | None, rank: int, iteration: int, where: str, record: Callable[[], None]) -> None:
    """Break this rank if the fault is meant for this place and has not fired in an earlier cycle, or comes in each.

    Args:
        fault: None never fires.
        rank: the caller's.
        iteration: being computed or saved.
        where: the place in it.
        record: told just before the fault, so that its moment is known.
    """
    if fault is None or (fault.rank, fault.iteration, fault.where) != (rank, iteration, where):
        return
    try:
        os.close(os.open(_FIRED, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        if not fault.every_cycle:
            return
    record()
    KINDS[fault.kind]()
