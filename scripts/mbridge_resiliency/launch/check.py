# SPDX-License-Identifier: Apache-2.0
"""From a job to the findings that are printed: rules, then suppressions."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..report.finding import Finding, Place, sort
from .model import Job
from .rules import Versions, all_rules, run_rules

_SUPPRESSION = re.compile(r"#\s*mbridge-resiliency:\s*ignore\[([^\]]*)\](.*)")


@dataclass
class Checked:
    """The outcome for one job.

    Attributes:
        findings: worst first.
        not_checked: what could not be told, one line each.
        suppressed: how many findings a comment silenced.
        measured: False if nothing in the files was a launch or a training script.
    """

    findings: list[Finding]
    not_checked: list[str]
    suppressed: int
    measured: bool


def check(job: Job, versions: Versions) -> Checked:
    """Run every rule over the job and drop what a comment in the files suppresses."""
    findings, not_checked = run_rules(job, versions)
    not_checked.extend(job.ignored)
    for script, place in job.unread:
        not_checked.append(f"{place}: {script} was not given; give it too")
    not_checked.extend(f"{place}: what {word} starts is not known" for word, place in job.unclear)
    kept, suppressed = [], 0
    comments = {name: _suppressions(name, text) for name, text in job.texts.items()}
    for finding in findings:
        if finding.rule in comments.get(finding.place.file, ({}, []))[0].get(finding.place.line, ()):
            suppressed += 1
        else:
            kept.append(finding)
    for _, wrong in comments.values():
        kept.extend(wrong)
    measured = bool(
        any(launch.program != "python" or launch.step is not None for launch in job.launches)
        or any(python.bridge or python.nemo_run for python in job.python)
        or any(document.section is not None or document.settings for document in job.yaml)
    )
    if measured and not kept and not (job.ft_launches() or job.unclear or _mentions(job)):
        not_checked.insert(0, f"{job.files[0]}: no ft_launcher and no ft settings in the files that were given")
    return Checked(sort(kept), list(dict.fromkeys(not_checked)), suppressed, measured)


def _mentions(job: Job) -> bool:
    plugins = any(
        call.name in ("FaultTolerancePlugin", "FaultTolerance") for python in job.python for call in python.calls
    )
    sections = any(document.section is not None for document in job.yaml)
    return plugins or sections or any(setting.name == "ft" for setting in job.settings())


def _suppressions(name: str, text: str) -> tuple[dict[int, set[str]], list[Finding]]:
    """(line -> rules suppressed there, findings for comments that suppress nothing that exists or give no reason).

    A comment holds for its own line; on a line of its own, for the next; in a continued shell command, for all of it.
    """
    if "mbridge-resiliency" not in text:
        return {}, []
    lines = text.split("\n")
    at: dict[int, set[str]] = {}
    wrong = []
    for number, line in enumerate(lines, 1):
        match = _SUPPRESSION.search(line)
        if match is None:
            continue
        rules = {rule.strip() for rule in match.group(1).split(",")}
        problem = ""
        if not match.group(2).strip():
            problem = "the comment gives no reason"
        elif unknown := sorted(rules - set(all_rules())):
            problem = f"there is no rule {', '.join(unknown)}"
        if problem:
            wrong.append(
                Finding(
                    "suppression",
                    "warning",
                    "high",
                    Place(name, number),
                    f"nothing is suppressed: {problem}",
                    "A silenced finding without a reason, or of a misspelt rule, hides what nobody decided.",
                    "# mbridge-resiliency: ignore[rule-id] why it is right here",
                )
            )
            continue
        start = number if line[: match.start()].strip() else number + 1
        at.setdefault(start, set()).update(rules)
        while start <= len(lines) and lines[start - 1].rstrip().endswith("\\"):
            start += 1
            at.setdefault(start, set()).update(rules)
    return at, wrong
