# SPDX-License-Identifier: Apache-2.0
"""The committed result files, as they were written by what measured them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "results"

Result = Mapping[str, Any]


@cache
def drills() -> Sequence[Result]:
    """Results of drill.py, in the catalogue's order and within a drill the newest NVRx first."""
    from ..drills.catalogue import DRILLS

    order = list(DRILLS)
    found = sorted(_read("drills"), key=lambda result: result["versions"]["nvidia-resiliency-ext"], reverse=True)
    return sorted(found, key=lambda result: order.index(result["drill"]))


@cache
def gpu() -> Sequence[Result]:
    """Results of results/gpu/run.py, by case."""
    return sorted(_read("gpu"), key=lambda result: result["case"])


@cache
def benchmarks() -> Sequence[Result]:
    """Results of benchmark.py, by name."""
    return sorted(_read("benchmarks"), key=lambda result: result["benchmark"])


def measured() -> Sequence[Result]:
    """Every result of a run of upstream: drills, then GPU."""
    return [*drills(), *gpu()]


def name(result: Result) -> str:
    """drill:NAME or gpu:CASE."""
    return f"drill:{result['drill']}" if "drill" in result else f"gpu:{result['case']}"


def _read(folder: str) -> Iterator[Result]:
    for path in sorted((RESULTS / folder).rglob("*.json")):
        yield {**json.loads(path.read_text(encoding="utf-8")), "file": path.relative_to(ROOT).as_posix()}
