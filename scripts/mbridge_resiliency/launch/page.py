# SPDX-License-Identifier: Apache-2.0
"""The reference page of the rules. It is generated: what a rule says, and what the tool prints for its first case."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator, Mapping

from ..cli import InputError
from ..report.finding import as_text
from .check import check
from .read import job_of
from .rules import BRIDGE, NVRX, SUPPORTED, Rule, Versions, all_rules

CASES = Path(__file__).resolve().parents[3] / "tests" / "launch" / "rules"
LANGUAGE = {".py": "python", ".yaml": "yaml", ".sh": "bash", ".sbatch": "bash"}
HEAD = """\
<!-- Generated from scripts/mbridge_resiliency/launch/rules and tests/launch/rules; do not edit. -->
# Rules of check_launch

`python3 scripts/check_launch.py job.sbatch train.py ft.yaml` reads all files as one job. An error breaks fault
tolerance or switches it off silently; a warning does so under a condition that it names. What cannot be read from the
files makes no finding: it is listed under `not checked`. `--explain RULE` prints a rule with the upstream sources that
it rests on. To silence a finding: `# mbridge-resiliency: ignore[rule-id] reason`, on its line or on a line of its own
above it.
"""


def render() -> str:
    """The whole page.

    Raises:
        InputError: the rule cases, which the repository holds under tests/launch/rules, are not there.
    """
    rules = all_rules()
    lines = [HEAD, "| rule | severity | finds |", "|---|---|---|"]
    lines += [f"| [{rule.id}](#{rule.id}) | {rule.severity} | {rule.title} |" for rule in rules.values()]
    for rule in rules.values():
        lines += ["", *_section(rule)]
    return "\n".join(lines) + "\n"


def _section(rule: Rule) -> Iterator[str]:
    case = _first_case(rule.id)
    holds = "; ".join(f"{package} {wanted}" for package, wanted in rule.holds.items())
    yield f"## {rule.id}"
    yield ""
    yield f"**{rule.title}** ({rule.severity}{f'; {holds}' if holds else ''})"
    yield ""
    yield f"- What: {rule.what}"
    yield f"- Why: {rule.why}"
    yield f"- Fix: {rule.fix}"
    yield ""
    for name, text in case["files"].items():
        yield f"`{name}`"
        yield f"```{LANGUAGE[Path(name).suffix]}"
        yield text.rstrip("\n")
        yield "```"
    yield "prints"
    yield "```text"
    yield _output(rule, case)
    yield "```"


def _first_case(rule_id: str) -> Mapping[str, Any]:
    import yaml

    path = CASES / f"{rule_id}.yaml"
    if not path.exists():
        raise InputError(f"{path} is missing: the page's examples are the rules' own cases")
    return yaml.safe_load(path.read_text(encoding="utf-8"))["fires"][0]


def _output(rule: Rule, case: Mapping[str, Any]) -> str:
    versions = Versions((case["nvrx"],) if "nvrx" in case else SUPPORTED[NVRX], SUPPORTED[BRIDGE])
    found = [finding for finding in check(job_of(dict(case["files"])), versions).findings if finding.rule == rule.id]
    return as_text(found, "").rpartition("\n")[0].rstrip()
