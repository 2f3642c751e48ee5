# SPDX-License-Identifier: Apache-2.0
"""Makes an environment under the cache folder, once, and prints its interpreter's path on standard output.

An environment is ready when its stamp file holds the hash of all that went into it. The stamp is written
last, so that nothing half-made is ever taken for ready; what an interrupted run has downloaded stays in
the cache folder and is not downloaded again.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import math
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterator, Sequence

from .. import cli
from . import bootstrap, interpreters

REQUIREMENTS = Path(__file__).parent / "requirements"
NVRX_VERSIONS = ("0.7.0", "0.6.0")
#: glibc that NVRx's wheels are tagged for. The tag asks for more than their pure-Python parts need.
NVRX_GLIBC = (2, 39)
SECONDS_BETWEEN_PROGRESS = 10
#: The speed that the minutes to expect are told for.
MBIT_PER_SECOND = 100
STAMP = ".ready.json"


@dataclass(frozen=True)
class Environment:
    """One environment to make.

    Attributes:
        name: its folder under the cache folder.
        requirements: names of files in requirements/.
        download: megabytes to download where nothing is in the cache yet.
        size: megabytes on disk; a second environment shares its files through hard links.
        check: what must be importable, the proof that it works.
    """

    name: str
    requirements: tuple[str, ...]
    download: int
    size: int
    check: str

    @property
    def folder(self) -> Path:
        return cli.cache_dir() / self.name

    @property
    def interpreter(self) -> Path:
        return self.folder / "bin" / "python"

    def key(self) -> str:
        """Hash of the pinned lists and the machine's architecture: another key is another environment."""
        digest = hashlib.sha256(platform.machine().encode())
        for name in self.requirements:
            digest.update((REQUIREMENTS / name).read_bytes())
        return digest.hexdigest()

    def ready(self) -> bool:
        try:
            stamp = json.loads((self.folder / STAMP).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        return stamp.get("key") == self.key() and self.interpreter.exists()


CHECKERS = Environment("checkers", ("checkers.txt",), 2, 8, "yaml, packaging, tree_sitter, tree_sitter_bash")
TESTS = Environment("tests", ("tests.txt",), 90, 270, "pytest, jsonschema, hypothesis, yaml, tree_sitter_bash")
_NVRX = "torch, nvidia_resiliency_ext.fault_tolerance"
NVRX_ALONE = Environment("drills-nvrx-0.6.0", ("drills.txt", "nvrx-0.6.0.txt"), 2700, 4700, _NVRX)


def with_bridge(nvrx: str) -> Environment:
    """NVRx of this version and Bridge; Python 3.12."""
    requirements = ("drills.txt", f"nvrx-{nvrx}.txt", "bridge.txt")
    return Environment(f"drills-nvrx-{nvrx}", requirements, 2700, 4700, f"{_NVRX}, megatron.core")


def prepare_checkers() -> Environment:
    """What check_launch and check_logs import; any Python that can run this."""
    return make(CHECKERS, interpreters.running)


def prepare_tests() -> Environment:
    """What the tests import or run; Python 3.11 or newer."""
    return make(TESTS, _python_for_tests)


def prepare_drills(nvrx: str) -> Environment:
    """What a drill runs: NVRx and Bridge on Python 3.12, or NVRx 0.6.0 alone where there is no Python 3.12."""
    environment = with_bridge(nvrx)
    if environment.ready():
        return environment
    python = interpreters.find((3, 12)) or (None if NVRX_ALONE.ready() else _download_python())
    if python:
        return make(environment, lambda: python)
    say(
        "Megatron Bridge needs Python 3.12, and none was found on PATH, under pyenv, of uv's own, or to download: "
        "this is NVRx 0.6.0 alone, without Bridge."
    )
    return make(NVRX_ALONE, _python_for_nvrx_alone)


def _python_for_nvrx_alone() -> Path:
    python = interpreters.find((3, 11)) or interpreters.find((3, 10))
    if python is None:
        raise cli.InputError("the drills need Python 3.12, or 3.10 or 3.11 for NVRx alone, and none was found")
    return python


def _python_for_tests() -> Path:
    python = interpreters.find((3, 12)) or interpreters.newest((3, 11))
    if python is None:
        raise cli.InputError("the tests need Python 3.11 or newer, and none was found on PATH or under pyenv")
    return python


def _download_python() -> Path | None:
    """Python 3.12 from where uv gets its own builds, kept in the cache folder; None where that cannot be reached."""
    with _locked():
        uv = str(bootstrap.find_uv() or bootstrap.install_uv(say))
        say("no Python 3.12 here: trying to download one (30 MB)")
        try:
            _run([uv, "python", "install", "--no-bin", "3.12"], "downloading Python 3.12")
        except cli.InputError:
            return None
    return interpreters.find((3, 12))


def make(environment: Environment, python: Callable[[], Path]) -> Environment:
    """Make the environment from the interpreter that python names, unless it is ready; return it.

    Raises:
        cli.InputError: it cannot be made; the message has the failing command's last lines.
    """
    if environment.ready():
        return environment
    base = python()
    with _locked():
        if environment.ready():  # another run made it while this one waited
            return environment
        _require_space(environment)
        started = time.monotonic()
        say(
            f"installing {environment.name} into {cli.cache_dir()}: at most {_size(environment.download)} to download, "
            f"{_size(environment.size)} on disk, {_minutes(environment.download)} min at {MBIT_PER_SECOND} Mbit/s"
        )
        uv = str(bootstrap.find_uv() or bootstrap.install_uv(say))
        doing = f"installing {environment.name}"
        for leftover in (cli.cache_dir() / "uv-cache").glob(".tmp*"):  # of an interrupted run
            shutil.rmtree(leftover, ignore_errors=True)
        (environment.folder / STAMP).unlink(missing_ok=True)
        _run([uv, "venv", "--clear", "--python", str(base), str(environment.folder)], doing)
        install = [uv, "pip", "install", "--no-deps", "--python", str(environment.interpreter), *_platform(environment)]
        for name in environment.requirements:
            install += ["--requirement", str(REQUIREMENTS / name)]
        _run(install, doing)
        _run([str(environment.interpreter), "-c", f"import {environment.check}"], f"checking {environment.name}")
        partial = environment.folder / f"{STAMP}.part"
        partial.write_text(json.dumps({"key": environment.key(), "python": str(base)}), encoding="utf-8")
        partial.rename(environment.folder / STAMP)
        say(f"{environment.name} ready in {time.monotonic() - started:.0f} s; used again from now on")
    return environment


def _platform(environment: Environment) -> list[str]:
    """The way round a glibc that is older than the NVRx wheel's tag."""
    if not any(name.startswith("nvrx-") for name in environment.requirements):
        return []
    library, version = platform.libc_ver()
    if library != "glibc" or tuple(map(int, version.split(".")[:2])) >= NVRX_GLIBC:
        return []
    wanted = f"{platform.machine()}-manylinux_{NVRX_GLIBC[0]}_{NVRX_GLIBC[1]}"
    say(f"glibc {version} is older than the NVRx wheel's tag: installing as for {wanted} (the launcher is pure Python)")
    return ["--python-platform", wanted]


def _require_space(environment: Environment) -> None:
    folder = cli.cache_dir()
    free = shutil.disk_usage(folder).free >> 20
    wanted = environment.size - _megabytes(folder / "uv-cache")
    if free < wanted:
        raise cli.InputError(
            f"{folder} has {_size(free)} free and {environment.name} needs {_size(wanted)} more. "
            "Set MBRIDGE_RESILIENCY_CACHE to a folder on a larger disk."
        )


@contextmanager
def _locked() -> Iterator[None]:
    """One set-up at a time. Child processes inherit the lock, so that an orphaned one still holds it."""
    folder = cli.cache_dir()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("a") as lock:
        os.set_inheritable(lock.fileno(), True)
        waited = 0
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if waited % SECONDS_BETWEEN_PROGRESS == 0:
                    say(f"another set-up is at work in {folder}: waiting for it ({waited} s)")
                time.sleep(1)
                waited += 1
        yield


def _run(command: Sequence[str], doing: str) -> None:
    """Run a command with its output in setup.log, telling every few seconds how much is on disk."""
    folder = cli.cache_dir()
    log = folder / "setup.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,  # a project's own uv settings must not count
            env=bootstrap.uv_environment(folder) | {"PYTHONPYCACHEPREFIX": str(folder / "pycache")},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            close_fds=False,
        )
        started = time.monotonic()
        try:
            while True:
                try:
                    code = process.wait(timeout=SECONDS_BETWEEN_PROGRESS)
                    break
                except subprocess.TimeoutExpired:
                    seconds = time.monotonic() - started
                    say(f"{doing}: {_size(_megabytes(folder))} on disk after {seconds:.0f} s")
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    if code:
        tail = "\n  ".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
        raise cli.InputError(
            f"{doing} failed: `{' '.join(command)}` ended with {code}:\n  {tail}\n"
            "Run the same command again: what was downloaded is kept."
        )


def _megabytes(folder: Path) -> int:
    """Size on disk, hard links counted once."""
    seen: dict[int, int] = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                status = os.lstat(os.path.join(parent, name))
            except FileNotFoundError:
                continue
            seen[status.st_ino] = status.st_blocks
    return sum(seen.values()) // 2048


def _minutes(download: int) -> int:
    """Minutes to expect for so many megabytes, with half a minute for all else."""
    return math.ceil((download * 8 / MBIT_PER_SECOND + 30) / 60)


def _size(megabytes: int) -> str:
    return f"{megabytes / 1000:.1f} GB" if megabytes >= 1000 else f"{megabytes} MB"


def say(text: str) -> None:
    """Tell the user, on standard error."""
    print(f"setup: {text}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    """Command line of setup.sh."""
    parser = argparse.ArgumentParser(
        prog="setup.sh",
        description="Install what the commands need into a cache folder of its own, outside the skill and the project. "
        "Prints the environment's interpreter on standard output.",
        epilog="The folder is $MBRIDGE_RESILIENCY_CACHE, else nemo-mbridge-resiliency in the user's cache folder. "
        "To undo all of it, delete that folder.",
    )
    parser.add_argument(
        "environment",
        choices=("checkers", "drills", "tests"),
        nargs="?",
        default="checkers",
        help="checkers: 8 MB, any Python from 3.10 (default); drills: 4.7 GB, Python 3.12; tests: 270 MB",
    )
    parser.add_argument(
        "--nvrx", choices=NVRX_VERSIONS, default=NVRX_VERSIONS[0], help="for drills (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    prepare = {"checkers": prepare_checkers, "tests": prepare_tests, "drills": lambda: prepare_drills(options.nvrx)}
    print(prepare[options.environment]().interpreter)
    return cli.EXIT_NOTHING


if __name__ == "__main__":
    sys.argv[0] = "setup.sh"
    cli.run(main)
