# SPDX-License-Identifier: Apache-2.0
"""Finding a Python interpreter of a given version.

Every candidate is started and asked for its version: a pyenv shim stands on PATH under the name of a version that
it then refuses to start, and must not hide the next candidate.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Iterator

from .. import cli

Version = tuple[int, int]
NEWEST_KNOWN = 14  # Python 3.x


def running() -> Path:
    """The interpreter that runs this, outside any virtual environment."""
    return Path(getattr(sys, "_base_executable", sys.executable) or sys.executable)


def find(version: Version) -> Path | None:
    """An interpreter of exactly this version: the running one, on PATH, under pyenv, or of uv's own."""
    if sys.version_info[:2] == version:
        return running()
    for candidate in _candidates(version):
        if _version(candidate) == version:
            return candidate
    return None


def newest(least: Version) -> Path | None:
    """The newest interpreter that is not older than this."""
    for minor in range(NEWEST_KNOWN, least[1] - 1, -1):
        if found := find((least[0], minor)):
            return found
    return None


def _candidates(version: Version) -> Iterator[Path]:
    name = "python{}.{}".format(*version)
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        yield Path(folder) / name
        yield Path(folder) / "python3"
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted((pyenv / "versions").glob("{}.{}.*/bin/{}".format(*version, name)), reverse=True)
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    for builds_of_uv in (data / "uv" / "python", cli.cache_dir() / "python"):
        yield from sorted(builds_of_uv.glob(f"*/bin/{name}"))


def _version(candidate: Path) -> Version | None:
    if not os.access(candidate, os.X_OK) or candidate.is_dir():
        return None
    try:
        done = subprocess.run(
            [str(candidate), "-I", "-c", "import sys; print(*sys.version_info[:2])"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=20,
        )
        major, minor = map(int, done.stdout.split())
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return major, minor
