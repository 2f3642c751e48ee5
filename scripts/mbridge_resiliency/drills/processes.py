# SPDX-License-Identifier: Apache-2.0
"""Finding and ending every process of one drill, and no other.

The launcher starts its workers in sessions of their own, and its rank monitors outlive a killed launcher, so
neither process groups nor parents lead to all of them. Each process of a drill carries a mark in its environment,
which children inherit and the kernel shows: "<drill run>/<node>". A run's id begins with its drill.py's process id.
"""

from __future__ import annotations

import os
import signal
import time
import uuid
from pathlib import Path

MARK = "MBRIDGE_RESILIENCY_DRILL"
_PROC = Path("/proc")


def supported() -> bool:
    """True where the kernel shows the environment of a process."""
    return (_PROC / "self" / "environ").exists()


def new_run() -> str:
    """An id for a run of this process."""
    return f"{os.getpid()}-{uuid.uuid4().hex}"


def marked(prefix: str) -> list[int]:
    """Process ids, zombies left out, whose mark starts with the prefix: a whole run, or one node of it."""
    return [pid for pid, mark in _marks().items() if mark.startswith(prefix)]


def end_abandoned() -> None:
    """End what is left of runs whose drill.py was itself killed, and could not."""
    for owner in {mark.partition("-")[0] for mark in _marks().values()}:
        if owner.isdigit() and not (_PROC / owner).exists():
            end(f"{owner}-")


def _marks() -> dict[int, str]:
    """Process id -> mark, of every process that carries one."""
    wanted = f"{MARK}=".encode()
    found = {}
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:  # it has ended, or belongs to another user
            continue
        for variable in variables:
            if variable.startswith(wanted):
                found[int(entry.name)] = variable[len(wanted) :].decode()
    return found


def end(prefix: str, spare: int | None = None, limit_seconds: float = 10.0) -> list[int]:
    """SIGKILL every marked process (stopped ones too) until none is left.

    Args:
        prefix: as for marked.
        spare: a process id to leave alone (the caller's own).
        limit_seconds: when to give up.

    Returns:
        The process ids that are still there; empty unless the limit was reached.
    """
    deadline = time.monotonic() + limit_seconds
    # More than once: a process may start another between the look and the kill.
    while left := [pid for pid in marked(prefix) if pid != spare]:
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if time.monotonic() > deadline:
            return left
        time.sleep(0.05)
    return []
