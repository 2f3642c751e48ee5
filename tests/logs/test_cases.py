# SPDX-License-Identifier: Apache-2.0
"""Each folder of tests/logs/cases is the log of one job and what must be told of it (expect.yaml).

label says where the log is from: real; shim (real launcher, monitors and callbacks, the loop stands in for training);
excerpt (written from a documented format). guilty is the rank that was broken on purpose; says and never_says are
parts that the text holds and does not hold.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from mbridge_resiliency import report as report_package
from mbridge_resiliency.logs import examine

CASES = Path(__file__).parent / "cases"
SCHEMA = json.loads((Path(report_package.__file__).parent / "check_logs.schema.json").read_text(encoding="utf-8"))
NAMES = sorted(path.name for path in CASES.iterdir())


def _expected(case: str) -> dict[str, Any]:
    return yaml.safe_load((CASES / case / "expect.yaml").read_text(encoding="utf-8"))


def _holds(wanted: Any, told: Any, where: str = "report") -> None:
    """Every key of wanted has that value in told; keys that wanted leaves out are free."""
    if isinstance(wanted, dict):
        assert isinstance(told, dict), f"{where} is {told!r}"
        for key, value in wanted.items():
            _holds(value, told[key], f"{where}.{key}")
    elif isinstance(wanted, list):
        assert len(wanted) == len(told), f"{where} is {told!r}"
        for number, (one, other) in enumerate(zip(wanted, told)):
            _holds(one, other, f"{where}[{number}]")
    else:
        assert told == wanted, f"{where} is {told!r}, expected {wanted!r}"


@pytest.mark.parametrize("case", NAMES)
def test_the_story_is_told(case: str) -> None:
    expected = _expected(case)
    assert expected.pop("label") in ("real", "shim", "excerpt")
    assert expected.pop("note")
    expected.pop("guilty", None)
    says, never_says = expected.pop("says", []), expected.pop("never_says", [])
    report = examine([CASES / case])
    told = json.loads(report.to_json())
    jsonschema.validate(told, SCHEMA)
    assert report.exit_code == expected.pop("exit_code")
    _holds(expected, told)
    text = report.to_text()
    assert len(text.splitlines()) < 70
    assert [part for part in says if part not in text] == []
    assert [part for part in never_says if part in text] == []


@pytest.mark.parametrize("case", NAMES)
def test_every_place_that_is_told_exists(case: str) -> None:
    told = examine([CASES / case]).to_dict()
    for step in (*told["timeline"], *(e for incident in told["incidents"] for e in incident["evidence"])):
        data = Path(step["file"]).read_bytes()
        lines = (gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data).split(b"\n")
        assert 1 <= step["line"] <= len(lines)
        if "text" in step:
            assert lines[step["line"] - 1].decode("utf-8", "replace").strip().startswith(step["text"])


@pytest.mark.parametrize("case", NAMES)
def test_nobody_innocent_is_named(case: str) -> None:
    """Who is named or suspected: the rank at fault is among them, and none that only waited for it."""
    guilty = _expected(case).get("guilty")
    for incident in examine([CASES / case]).to_dict()["incidents"]:
        accused = {*incident["ranks"], *incident["suspects"]}
        assert not accused & set(incident["victims"])
        if accused and guilty is not None:
            assert guilty in accused
            assert incident["ranks"] in ([], [guilty])


def test_one_file_or_many_tell_the_same(tmp_path: Path) -> None:
    """The launcher's output and one file a rank, and the same lines merged into one file."""
    apart = CASES / "per-rank-files"
    files = sorted(path for path in apart.rglob("*.log*"))
    (launcher,) = (path for path in files if path.name.startswith("launcher"))
    ranks = [b"".join(_read(path) for path in files if f"attempt_{cycle}" in path.parts) for cycle in (0, 1)]
    merged = []
    for line in _read(launcher).splitlines(keepends=True):
        merged.append(line)
        if b"Event: worker_start_completed" in line:
            merged.append(ranks.pop(0))
    (tmp_path / "job.log").write_bytes(b"".join(merged))
    one, many = examine([tmp_path]).to_dict(), examine([apart]).to_dict()
    for told in (one, many):
        for part in (told["verdict"]["cause"], *told["incidents"]):
            for key in ("file", "line", "evidence"):
                del part[key]
        del told["verdict"]["shown_by"]
    assert one["verdict"] == many["verdict"]
    assert one["incidents"] == many["incidents"]


def _read(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data
