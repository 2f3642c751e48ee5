# SPDX-License-Identifier: Apache-2.0
"""What a rule reports, and how findings are printed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Sequence

from .. import __version__

SCHEMA_VERSION = 1
SEVERITIES = ("error", "warning", "note")
CONFIDENCES = ("high", "medium", "low")
#: Text output stops here; the last line says how many were left out and how to see them.
MOST_IN_TEXT = 50


@dataclass(frozen=True, order=True)
class Place:
    """A line of a checked file. line is 1-based; 0 is the file as a whole."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True)
class Finding:
    """One mistake.

    Attributes:
        rule: the id, which never changes.
        severity: error (breaks or silently disables), warning (breaks under a named condition), note.
        confidence: how sure the rule is of what it read.
        place: where.
        problem: what is wrong here, with the values found.
        why: one sentence, why it matters.
        fix: text that can be pasted, or the edit to make.
        versions: which upstream versions it holds for, as printed ("NVRx 0.6.0, 0.7.0").
        page: the page section that says more, relative to the skill's folder.
    """

    rule: str
    severity: str
    confidence: str
    place: Place
    problem: str
    why: str
    fix: str
    versions: str = ""
    page: str = ""


def sort(findings: Sequence[Finding]) -> list[Finding]:
    """Worst first, then by place."""
    return sorted(findings, key=lambda f: (SEVERITIES.index(f.severity), f.place, f.rule))


def as_text(findings: Sequence[Finding], checked: str, most: int = MOST_IN_TEXT) -> str:
    """A block a finding; one closing line that counts them. checked says what was read ("2 files, one job")."""
    lines: list[str] = []
    for finding in findings[:most]:
        lines.append(f"{finding.place}: {finding.severity}: {finding.problem} [{finding.rule}]")
        lines.append(f"  why: {finding.why}")
        lines.extend(_labelled("  fix: ", finding.fix))
        sure = f"  sure: {finding.confidence}"
        if finding.versions:
            sure += f"; holds for {finding.versions}"
        if finding.page:
            sure += f"; more: {finding.page}"
        lines.extend([sure, ""])
    if len(findings) > most:
        lines.append(f"... and {len(findings) - most} more; --format json prints them all.")
    counts = ", ".join(
        f"{n} {severity}{'s' if n > 1 else ''}"
        for severity in SEVERITIES
        if (n := sum(f.severity == severity for f in findings))
    )
    lines.append(f"{checked}: {counts or 'nothing found'}.")
    return "\n".join(lines)


def _labelled(label: str, text: str) -> list[str]:
    first, *rest = text.splitlines() or [""]
    return [label + first, *(" " * len(label) + line for line in rest)]


def as_json(findings: Sequence[Finding], **meta: Any) -> str:
    """The findings and what was checked, as one JSON object (schema: report/check_launch.schema.json)."""
    body = {
        "schema_version": SCHEMA_VERSION,
        "tool_version": __version__,
        **meta,
        "findings": [asdict(finding) for finding in findings],
    }
    return json.dumps(body, indent=2)


def as_github(findings: Sequence[Finding]) -> str:
    """Workflow commands that GitHub shows beside the line."""
    kind = {"error": "error", "warning": "warning", "note": "notice"}
    return "\n".join(
        f"::{kind[f.severity]} file={_property(f.place.file)},line={max(f.place.line, 1)},title={_property(f.rule)}::"
        f"{_data(f'{f.problem} {f.why} Fix: {f.fix}')}"
        for f in findings
    )


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def as_sarif(findings: Sequence[Finding], tool: str, rules: dict[str, str]) -> str:
    """SARIF 2.1.0. rules: id -> one-line description of every rule the tool has."""
    body = {
        "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": tool,
                        "version": __version__,
                        "rules": [{"id": i, "shortDescription": {"text": text}} for i, text in sorted(rules.items())],
                    }
                },
                "results": [
                    {
                        "ruleId": f.rule,
                        "level": f.severity,
                        "message": {"text": f"{f.problem} {f.why} Fix: {f.fix}"},
                        "locations": [
                            {
                                "physicalLocation": {
                                    "artifactLocation": {"uri": f.place.file},
                                    "region": {"startLine": max(f.place.line, 1)},
                                }
                            }
                        ],
                    }
                    for f in findings
                ],
            }
        ],
    }
    return json.dumps(body, indent=2)
