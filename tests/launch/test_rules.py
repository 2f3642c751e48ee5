# SPDX-License-Identifier: Apache-2.0
"""Every rule over its own cases: tests/launch/rules/<rule-id>.yaml, with `fires` and `silent`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from mbridge_resiliency import facts
from mbridge_resiliency.launch.check import Checked, check
from mbridge_resiliency.launch.read import job_of
from mbridge_resiliency.launch.rules import BRIDGE, NVRX, SUPPORTED, Versions, all_rules

CASES = {
    path.stem: yaml.safe_load(path.read_text()) for path in sorted((Path(__file__).parent / "rules").glob("*.yaml"))
}


def _of(kind: str) -> list[Any]:
    return [
        pytest.param(rule, case, id=f"{rule}: {case['name']}") for rule, cases in CASES.items() for case in cases[kind]
    ]


def _checked(case: dict[str, Any]) -> Checked:
    nvrx = (case["nvrx"],) if "nvrx" in case else SUPPORTED[NVRX]
    bridge = (case["bridge"],) if "bridge" in case else SUPPORTED[BRIDGE]
    return check(job_of(case["files"]), Versions(nvrx, bridge))


@pytest.mark.parametrize(("rule", "case"), _of("fires"))
def test_fires_at_the_line_and_only_there(rule: str, case: dict[str, Any]) -> None:
    found = [finding for finding in _checked(case).findings if finding.rule == rule]
    assert [(f.place.file, f.place.line) for f in found] == [
        (case.get("file", next(iter(case["files"]))), case["line"])
    ]
    assert found[0].severity == case.get("severity", all_rules()[rule].severity)
    assert case.get("fix", "") in found[0].fix
    assert found[0].problem and found[0].fix and "\0" not in found[0].problem + found[0].fix


@pytest.mark.parametrize(("rule", "case"), _of("silent"))
def test_is_silent(rule: str, case: dict[str, Any]) -> None:
    result = _checked(case)
    assert [finding.problem for finding in result.findings if finding.rule == rule] == []
    assert any(case.get("not_checked", "") in reason for reason in ["", *result.not_checked])


def test_every_rule_has_cases_and_every_case_a_rule() -> None:
    assert set(CASES) == set(all_rules())
    assert all(cases["fires"] and cases["silent"] for cases in CASES.values())


@pytest.mark.parametrize("rule", all_rules().values(), ids=lambda rule: rule.id)
def test_rule_is_whole(rule: Any) -> None:
    assert rule.title and rule.what and rule.why and rule.fix
    assert rule.facts and all(facts.fact(fact_id) for fact_id in rule.facts)
    assert rule.why.count(". ") == 0, "why is one sentence"
