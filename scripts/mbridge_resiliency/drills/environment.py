# SPDX-License-Identifier: Apache-2.0
"""Where the real packages are installed that a drill runs."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Iterator

from .. import cli

DEFAULT_NVRX = "0.7.0"
PACKAGES = ("torch", "nvidia-resiliency-ext", "megatron-bridge", "megatron-core")
_SETUP = Path(__file__).resolve().parents[2] / "setup.sh"

_ASK = f"""
import importlib.metadata as metadata, json, platform
versions = {{"python": platform.python_version()}}
for package in {PACKAGES!r}:
    try:
        versions[package] = metadata.version(package)
    except metadata.PackageNotFoundError:
        pass
print(json.dumps(versions))
"""


class NotPrepared(Exception):
    """No environment with what the drill needs. The message says which command makes one."""


@dataclass(frozen=True)
class Environment:
    """A Python with NVRx.

    Attributes:
        python: its interpreter.
        versions: of "python" and of each of PACKAGES that is installed.
    """

    python: Path
    versions: dict[str, str]

    @property
    def bridge(self) -> bool:
        """True if Megatron Bridge and what its fault tolerance imports are installed."""
        return {"megatron-bridge", "megatron-core"} <= set(self.versions)

    def without_bridge(self) -> Environment:
        """The same, for runs that do not touch Megatron Bridge."""
        return replace(self, versions={name: v for name, v in self.versions.items() if not name.startswith("megatron")})

    def program(self, name: str) -> str:
        """The path of a command that a package of this environment installs (ft_launcher, torchrun)."""
        return str(self.python.parent / name)


def find(nvrx: str = DEFAULT_NVRX) -> Environment:
    """The environment that setup.sh made for this NVRx version, or the running interpreter where it has it.

    Raises:
        NotPrepared: neither has it.
    """
    seen = []
    for python in _candidates(nvrx):
        if not python.exists():
            seen.append(f"{python} does not exist")
            continue
        versions = _versions(python)
        found = versions.get("nvidia-resiliency-ext")
        if found == nvrx and "torch" in versions:
            return Environment(python, versions)
        seen.append(f"{python} has {f'nvidia-resiliency-ext {found}' if found else 'no nvidia-resiliency-ext'}")
    option = "" if nvrx == DEFAULT_NVRX else f" --nvrx {nvrx}"
    raise NotPrepared(
        f"no environment with nvidia-resiliency-ext {nvrx} and torch ({'; '.join(seen)}).\n"
        f"Make it with:\n  bash {_SETUP} drills{option}"
    )


def _candidates(nvrx: str) -> Iterator[Path]:
    yield cli.cache_dir() / f"drills-nvrx-{nvrx}" / "bin" / "python"
    yield Path(sys.executable)


def _versions(python: Path) -> dict[str, str]:
    try:
        answer = subprocess.run([str(python), "-c", _ASK], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    return json.loads(answer.stdout)
