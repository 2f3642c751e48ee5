# SPDX-License-Identifier: Apache-2.0
"""The command check_launch."""

from __future__ import annotations

import argparse
import re
import sys
from typing import Any, Sequence

from ..cli import EXIT_FINDINGS, EXIT_NOT_MEASURED, EXIT_NOTHING, InputError
from ..report import finding as report
from .check import Checked, check
from .read import read_job
from .rules import BRIDGE, KNOWN, NVRX, SUPPORTED, Rule, Versions, all_rules

MOST_NOT_CHECKED = 10
EPILOG = """exit codes: 0 nothing found; 1 findings; 2 wrong usage or unreadable input; 3 nothing to check.
Give every file of the job at once: the launch script, the training script, the ft YAML file.
Suppress a finding on its line, or on a line of its own above: # mbridge-resiliency: ignore[rule-id] reason"""


def main(arguments: Sequence[str]) -> int:
    """Check the files that the arguments name; the exit code is returned. Raises InputError."""
    options = _parser().parse_args(arguments)
    if options.list_rules:
        print("\n".join(f"{rule.id:32} {rule.severity:8} {rule.title}" for rule in all_rules().values()))
        return EXIT_NOTHING
    if options.explain:
        print(explained(options.explain))
        return EXIT_NOTHING
    if not options.files:
        raise InputError("name at least one file: check_launch.py job.sbatch train.py ft.yaml")
    versions = Versions(_chosen(NVRX, options.nvrx), _chosen(BRIDGE, options.bridge))
    checked = check(read_job(options.files), versions)
    print(render(checked, options.files, versions, options.format))
    if not checked.measured:
        if options.format != "text":
            print(_nothing_measured(len(set(options.files))), file=sys.stderr)
        return EXIT_NOT_MEASURED
    return EXIT_FINDINGS if checked.findings else EXIT_NOTHING


def render(checked: Checked, files: Sequence[str], versions: Versions, form: str = "text") -> str:
    """What is printed: the findings, what could not be told, and one closing line."""
    if form == "json":
        return report.as_json(
            checked.findings,
            tool="check_launch",
            files=list(files),
            versions={NVRX: list(versions.nvrx), BRIDGE: list(versions.bridge)},
            measured=checked.measured,
            not_checked=checked.not_checked,
            suppressed=checked.suppressed,
        )
    if form == "sarif":
        return report.as_sarif(checked.findings, "check_launch", {r.id: r.title for r in all_rules().values()})
    if form == "github":
        return report.as_github(checked.findings)
    count = len(dict.fromkeys(files))
    given = f"{count} file{'s' if count > 1 else ''}"
    body, _, last = report.as_text(checked.findings, f"{given}, one job").rpartition("\n")
    lines = [body] if body else []
    if checked.not_checked:
        lines.append("not checked:")
        lines.extend(f"  {reason}" for reason in checked.not_checked[:MOST_NOT_CHECKED])
        if len(checked.not_checked) > MOST_NOT_CHECKED:
            left = len(checked.not_checked) - MOST_NOT_CHECKED
            lines.append(f"  ... and {left} more; --format json prints them all.")
        lines.append("")
    if checked.suppressed:
        last += f" {checked.suppressed} suppressed."
    if not checked.measured:
        last = "Nothing was checked." if checked.not_checked else _nothing_measured(count)
    return "\n".join([*lines, last])


def _nothing_measured(count: int) -> str:
    return (
        f"{count} file{'s' if count > 1 else ''}: nothing to check: no launch (ft_launcher, torchrun, srun), "
        "no script for Megatron Bridge or NeMo-Run, no ft settings."
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="check_launch.py",
        description="Reports what makes fault tolerance absent, silently off or harmful in a Megatron Bridge job.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="shell, Python, YAML; - is a shell script on stdin")
    parser.add_argument("--format", choices=("text", "json", "sarif", "github"), default="text")
    parser.add_argument(
        "--nvrx", metavar="VERSION", help=f"check for this NVRx only; default: {', '.join(SUPPORTED[NVRX])}"
    )
    parser.add_argument(
        "--bridge",
        metavar="VERSION",
        help=f"check for this Megatron Bridge only; default: {SUPPORTED[BRIDGE][0]} to {SUPPORTED[BRIDGE][-1]}",
    )
    parser.add_argument("--list-rules", action="store_true", help="print every rule and exit")
    parser.add_argument("--explain", metavar="RULE", help="print what a rule looks for, why, and the fix, and exit")
    return parser


def _chosen(package: str, version: str | None) -> tuple[str, ...]:
    if version is None:
        return SUPPORTED[package]
    if version not in KNOWN[package]:
        raise InputError(f"no facts for {package} {version}; there are facts for {', '.join(KNOWN[package])}")
    return (version,)


def explained(rule_id: str) -> str:
    """A rule with what it looks for and the upstream sources that it rests on. Raises InputError for no rule."""
    rules: Any = all_rules()
    if rule_id not in rules:
        raise InputError(f"there is no rule {rule_id}; --list-rules prints them all")
    rule: Rule = rules[rule_id]
    from .. import facts

    lines = [f"{rule.id} ({rule.severity}, confidence {rule.confidence}): {rule.title}", "", f"what: {rule.what}"]
    lines += [f"why: {rule.why}", f"fix: {rule.fix}", "rests on:"]
    for fact_id in rule.facts:
        fact = facts.fact(fact_id)
        holds = ", ".join(f"{package} {wanted}" for package, wanted in fact.holds.items())
        where = " ".join(filter(None, (fact.source["file"], fact.source.get("symbol"))))
        lines.append(f"  {fact_id}: {where} ({holds})")
    return re.sub(r"`", "", "\n".join(lines))
