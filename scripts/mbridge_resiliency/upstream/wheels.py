# SPDX-License-Identifier: Apache-2.0
"""Wheels of named releases: looked for in the cache, downloaded only when asked."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from ..cli import InputError, cache_dir
from .sources import KNOWN, Wheel

#: A wheel is only read, so that it need not fit this machine: the newest tags of what the packages are built for.
PLATFORMS = ("manylinux_2_39_x86_64", "manylinux_2_31_x86_64", "manylinux_2_28_x86_64", "any")
PYTHON = "3.12"


class NotThere(Exception):
    """A wheel is not in the cache and may not be, or cannot be, downloaded. The message says what to run."""


def wheels_dir() -> Path:
    """Where wheels are kept."""
    return cache_dir() / "wheels"


def parse_requirement(text: str) -> tuple[str, str]:
    """("megatron-bridge", "0.6.2") from megatron-bridge==0.6.2. Raises InputError."""
    name, separator, version = text.partition("==")
    name = canonicalize_name(name.strip())
    try:
        Version(version)
    except InvalidVersion:
        separator = ""
    if not separator or name not in KNOWN:
        raise InputError(f"{text!r} is not NAME==VERSION with NAME one of {', '.join(KNOWN)}")
    return name, version.strip()


def cached(name: str, version: str) -> Path | None:
    """The cached wheel of this release."""
    for path in sorted(wheels_dir().glob(f"{name.replace('-', '_')}-*.whl")):
        with contextlib.suppress(InvalidWheelFilename):
            found, found_version, _, _ = parse_wheel_filename(path.name)
            if found == name and found_version == Version(version):
                return path
    return None


def interpreter_with_pip() -> str | None:
    """The running interpreter, or the first on PATH that has pip: environments are often made without it."""
    if importlib.util.find_spec("pip") is not None:
        return sys.executable
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        for python in (Path(folder) / name for name in ("python3", "python")):
            if folder and python.is_file():
                asked = subprocess.run([str(python), "-m", "pip", "--version"], capture_output=True, check=False)
                if asked.returncode == 0:
                    return str(python)
    return None


def download_command(name: str, version: str, into: Path, python: str = "python3") -> list[str]:
    """The pip command by which an interpreter fetches one wheel without its dependencies."""
    tag = "cp" + PYTHON.replace(".", "")
    command = [python, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--python-version", PYTHON, "--implementation", "cp"]
    command += [f"--abi={abi}" for abi in (tag, "abi3", "none")]
    command += [f"--platform={platform}" for platform in PLATFORMS]
    return [*command, "--dest", str(into), f"{name}=={version}"]


def wheel(name: str, version: str, download: bool = False) -> Wheel:
    """The wheel of one release, from the cache or, where asked, from the package index.

    Raises:
        NotThere: not in the cache; the message has the command that fetches it, or what pip said.
    """
    path = cached(name, version)
    if path is None and download:
        path = _download(name, version)
    if path is None:
        fetch = shlex.join(download_command(name, version, wheels_dir()))
        raise NotThere(
            f"{name}=={version} is not in {wheels_dir()}. Add --download, put the wheel there, or run:\n  {fetch}"
        )
    return Wheel(path)


def _download(name: str, version: str) -> Path:
    """Into a folder beside the cache first: an interrupted download leaves nothing that looks whole."""
    python = interpreter_with_pip()
    if python is None:
        raise NotThere(f"no interpreter here has pip, to fetch {name}=={version}: put its wheel into {wheels_dir()}")
    wheels_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=wheels_dir(), prefix=".download-") as folder:
        print(f"downloading {name}=={version} into {wheels_dir()}", file=sys.stderr)
        done = subprocess.run(
            download_command(name, version, Path(folder), python), capture_output=True, text=True, check=False
        )
        found = list(Path(folder).glob("*.whl"))
        if done.returncode or not found:
            said = re.sub(r"https?://\S+", "the index", done.stderr.strip())[-600:]
            raise NotThere(f"{name}=={version} could not be downloaded: {said or 'pip gave no wheel'}")
        target = wheels_dir() / found[0].name
        os.replace(found[0], target)
    return target
