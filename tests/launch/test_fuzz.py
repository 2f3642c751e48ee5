# SPDX-License-Identifier: Apache-2.0
"""No input leads to anything but an outcome or an InputError."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

pytest.importorskip("hypothesis", reason="hypothesis is not installed here")

from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st

from mbridge_resiliency.cli import InputError  # noqa: E402
from mbridge_resiliency.launch.check import check  # noqa: E402
from mbridge_resiliency.launch.read import job_of  # noqa: E402
from mbridge_resiliency.launch.rules import Versions  # noqa: E402

CASES = [
    case["files"]
    for path in sorted((Path(__file__).parent / "rules").glob("*.yaml"))
    for kind in yaml.safe_load(path.read_text()).values()
    for case in kind
]
BITS = st.sampled_from(
    [
        "ft_launcher", "torchrun", "srun", "bash -c", "exec", "env", "--max-restarts", "--max-restarts=", "=", "\\\n",
        "\n", "--ft-rank-section-timeouts=", "setup:600,", "step:", "$X", "${X:-1}", "\"$@\"", "${A[@]}",
        "$(hostname)", "'", "\"", "<<EOF\n", "EOF\n", "if ", "then ", "fi\n", "for i in 1; do ", "done\n", "{", "}",
        "(", ")", "|", "&", "&&", ";", "A=(", "A+=(", "export ", "source ", "#SBATCH --nodes=2\n", "train.py", "-m",
        "--", "-", "*", "\t", "é", "case $X in a) ", "f() { ", "f ", "wait\n", "set -e\n",
        "ft.enable_ft_package=true", "+ft={a:b}", "--nnodes=1:2", "#", "`", "$((1+", "))",
    ]
)  # fmt: skip
OPTIONS = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def survives(files: dict[str, str]) -> None:
    try:
        result = check(job_of(files), Versions())
    except InputError:
        return
    for finding in result.findings:
        assert finding.place.file and finding.place.line >= 0 and finding.problem and finding.fix
        assert "\0" not in finding.problem + finding.fix


@OPTIONS
@given(st.lists(BITS, max_size=40))
def test_shell_of_bits(bits: list[str]) -> None:
    survives({"job.sh": " ".join(bits)})


@OPTIONS
@given(st.text(max_size=200), st.sampled_from(["job.sh", "train.py", "ft.yaml", "noname"]))
def test_any_text(text: str, name: str) -> None:
    survives({name: text.replace("\0", "")})


@OPTIONS
@given(st.sampled_from(CASES), st.data())
def test_cases_cut_and_doubled(files: dict[str, str], data: st.DataObject) -> None:
    changed = {}
    for name, text in files.items():
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, len(text)))
        changed[name] = text[:start] + data.draw(st.sampled_from(["", text[start:end] * 2, text[end:]])) + text[end:]
    survives(changed)
