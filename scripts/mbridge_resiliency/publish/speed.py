# SPDX-License-Identifier: Apache-2.0
"""Measures how fast the checkers are, each beside something that everybody knows, in one run."""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Iterable, Sequence

from .. import __version__, cli
from ..drills.result import machine
from ..upstream import matrix, wheels
from . import verified
from .results import RESULTS, ROOT

SCHEMA_VERSION = 1
SCRIPTS = ROOT / "scripts"
LAUNCH_SCRIPT = ROOT / "examples" / "fault-tolerance" / "job.sbatch"
REPEATS = 15
LOG_MEGABYTES = 200
READ_WHEELS = "import sys, zipfile\nfor path in sys.argv[1:]: zipfile.ZipFile(path).testzip()"
RANKS = 8


def write_log(path: Path, megabytes: int) -> None:
    """A merged log of one node, of about this size: iterations, chatter of collectives, saves, one hang at the end."""
    chance = random.Random(0)
    written, iteration = 0, 0
    with path.open("w", encoding="utf-8") as log:
        log.write("0: FT: initialized. Timeouts=SectionTimeouts(out_of_section=600.00, sections=[step=180.00])\n")
        while written < megabytes * 1_000_000:
            iteration += 1
            lines = [
                f"{rank}: node0:{4000 + rank}:{5000 + rank} [{rank}] NCCL INFO Channel {chance.randrange(32):02d}/0 : "
                f"{rank}[{rank}] -> {chance.randrange(RANKS)}[{rank}] via P2P/CUMEM"
                for rank in range(RANKS)
            ]
            lines.append(
                f"{RANKS - 1}:  iteration {iteration:8d}/ 1000000 | consumed samples: {iteration * 256:12d} "
                f"| elapsed time per iteration (ms): {chance.uniform(900, 1100):.1f} | learning rate: 1.5E-04 "
                f"| global batch size:   256 | lm loss: {chance.uniform(2, 3):.6E} | grad norm: {chance.random():.3f} |"
            )
            if iteration % 500 == 0:
                lines.append(
                    f"0:   successfully saved checkpoint from iteration {iteration:7d} to /run1 [ t 1/1, p 1/1 ]"
                )
            text = "\n".join(lines) + "\n"
            log.write(text)
            written += len(text)
        log.write("3: [Cycle 0] Section 'step' has been open for 180.52 seconds. Timeout is 180.00 seconds.\n")


def check_launch() -> dict[str, object]:
    """Start to end of check_launch on one file, beside an interpreter that does nothing."""
    checking = [sys.executable, str(SCRIPTS / "check_launch.py"), str(LAUNCH_SCRIPT)]
    nothing = [sys.executable, "-c", "pass"]
    checked, started = _alternate(checking, nothing, REPEATS)
    return {
        "what": "check_launch.py on one file, start to end",
        "measured": f"{checked * 1000:.0f} ms",
        "against": f"`python3 -c pass`: {started * 1000:.0f} ms",
        "ratio": round(checked / started, 2),
    }


def check_logs(log: Path) -> dict[str, object]:
    """Throughput of check_logs on one log, beside grep counting one fixed word in it."""
    megabytes = log.stat().st_size / 1_000_000
    checking = [sys.executable, str(SCRIPTS / "check_logs.py"), "--format", "json", str(log)]
    searching = ["grep", "--count", "--fixed-strings", "Timeout is", str(log)]
    checked, searched = _alternate(checking, searching, 3)
    return {
        "what": f"check_logs.py on a log of {megabytes:.0f} MB",
        "measured": f"{megabytes / checked:.0f} MB/s",
        "against": f"`grep -F` for one word: {megabytes / searched:.0f} MB/s",
        "ratio": round(checked / searched, 2),
    }


def check_upstream() -> list[dict[str, object]]:
    """One release, and the whole matrix: warm, and without anything kept of earlier runs; beside reading the wheels."""
    one = matrix.packages_of("megatron-bridge", verified.newest("megatron-bridge"))
    every = {pair for packages in matrix.table()["releases"] for pair in packages.items()}
    script = [sys.executable, str(SCRIPTS / "check_upstream.py")]
    name = f"megatron-bridge=={one['megatron-bridge']}"
    rows = [
        _upstream(f"check_upstream.py on {name}", [*script, "--release", name], one.items()),
        _upstream("check_upstream.py on the whole matrix", [*script, "--matrix"], every),
    ]
    with tempfile.TemporaryDirectory() as fresh:
        (Path(fresh) / "wheels").symlink_to(wheels.wheels_dir())
        forget = ["sh", "-c", 'rm -rf "$0/upstream"; MBRIDGE_RESILIENCY_CACHE="$0" exec "$@"', fresh]
        rows.append(_upstream("the same for the first time", [*forget, *script, "--matrix"], every))
    return rows


def _upstream(what: str, checking: Sequence[str], packages: Iterable[tuple[str, str]]) -> dict[str, object]:
    paths = [wheels.wheel(name, str(version)).origin for name, version in sorted(packages)]
    read = [sys.executable, "-c", READ_WHEELS, *paths]
    checked, unpacked = _alternate(checking, read, 3)
    return {
        "what": what,
        "measured": f"{checked:.2f} s",
        "against": f"unpacking its {len(paths)} wheels: {unpacked:.2f} s",
        "ratio": round(checked / unpacked, 2),
    }


def _alternate(first: Sequence[str], second: Sequence[str], repeats: int) -> tuple[float, float]:
    """Median seconds of two commands run in turn, after one run of each that does not count."""
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats + 1):
        for command, times in zip((first, second), taken, strict=True):
            started = time.perf_counter()
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            times.append(time.perf_counter() - started)
            if done.returncode > 1:  # the checkers and grep alike: 0 and 1 are answers
                said = done.stderr.strip()[-500:]
                raise cli.InputError(f"`{' '.join(command)}` ended with {done.returncode}: {said}")
    return statistics.median(taken[0][1:]), statistics.median(taken[1][1:])


def main(arguments: Sequence[str]) -> int:
    """Command line of benchmark.py."""
    parser = argparse.ArgumentParser(
        prog="benchmark.py", description="Measure how fast the checkers are and write results/benchmarks/checkers.json."
    )
    parser.add_argument("--out", type=Path, default=RESULTS / "benchmarks", help="folder (default: %(default)s)")
    parser.add_argument("--megabytes", type=int, default=LOG_MEGABYTES, help="size of the log (default: %(default)s)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch) / "job.log"
        write_log(log, options.megabytes)
        try:
            measured = [check_launch(), check_logs(log), *check_upstream()]
        except wheels.NotThere as error:
            raise cli.InputError(str(error)) from None
    result = {
        "schema_version": SCHEMA_VERSION,
        "benchmark": "checkers",
        "title": "How fast the checkers are",
        "command": "python3 scripts/benchmark.py",
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "versions": {"nemo-mbridge-resiliency": __version__, "python": platform.python_version()},
        "machine": machine(),
        "measured": measured,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "checkers.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    for row in measured:
        print(f"{row['what']}: {row['measured']} (against {row['against']}; ratio {row['ratio']})")
    return cli.EXIT_NOTHING
