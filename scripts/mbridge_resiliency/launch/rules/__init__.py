# SPDX-License-Identifier: Apache-2.0
"""The rules. Each is one function under `@rule`: it reads a Job and yields Hit or Unsure, and prints nothing.

The function's docstring says what the rule looks for; it and the decorator's texts make the rule's page section.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Callable, Iterable, Iterator, Mapping, Sequence

from ...report.finding import Finding, Place
from ..model import Job

NVRX, BRIDGE = "nvidia-resiliency-ext", "megatron-bridge"
#: Checked by default.
SUPPORTED = {NVRX: ("0.6.0", "0.7.0"), BRIDGE: ("0.4.2", "0.5.0", "0.5.1", "0.6.0", "0.6.1", "0.6.2")}
#: Facts exist for these too.
KNOWN = {NVRX: ("0.5.0", *SUPPORTED[NVRX]), BRIDGE: ("0.4.1", *SUPPORTED[BRIDGE])}
PAGE = "references/launch-rules.md"


@dataclass(frozen=True)
class Versions:
    """The upstream versions to check for."""

    nvrx: tuple[str, ...] = SUPPORTED[NVRX]
    bridge: tuple[str, ...] = SUPPORTED[BRIDGE]

    def of(self, package: str) -> tuple[str, ...]:
        return self.nvrx if package == NVRX else self.bridge


@dataclass(frozen=True)
class Hit:
    """One mistake that a rule found. severity, confidence and nvrx narrow the rule's own."""

    place: Place
    problem: str
    fix: str
    severity: str | None = None
    confidence: str | None = None
    nvrx: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unsure:
    """Something that a rule could not decide, and what would decide it."""

    place: Place
    reason: str


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        id: never changes.
        holds: package -> versions (PEP 440 specifier) it holds for; absent: all.
        facts: ids of the facts it rests on.
    """

    id: str
    severity: str
    confidence: str
    title: str
    what: str
    why: str
    fix: str
    facts: tuple[str, ...]
    holds: Mapping[str, str]
    check: Callable[[Job, Versions], Iterable[Hit | Unsure]]

    @property
    def page(self) -> str:
        return f"{PAGE}#{self.id}"


_RULES: dict[str, Rule] = {}


def rule(
    rule_id: str,
    *,
    title: str,
    why: str,
    fix: str,
    facts: Sequence[str],
    severity: str = "error",
    confidence: str = "high",
    holds: Mapping[str, str] | None = None,
) -> Callable[[Callable[[Job, Versions], Iterable[Hit | Unsure]]], Callable[[Job, Versions], Iterable[Hit | Unsure]]]:
    """Register the function as a rule."""

    def register(check: Callable[[Job, Versions], Iterable[Hit | Unsure]]) -> Callable[..., Iterable[Hit | Unsure]]:
        if rule_id in _RULES:
            raise ValueError(f"two rules are called {rule_id}")
        what = " ".join((check.__doc__ or "").split())
        _RULES[rule_id] = Rule(
            rule_id, severity, confidence, title, what, why, fix, tuple(facts), dict(holds or {}), check
        )
        return check

    return register


def all_rules() -> Mapping[str, Rule]:
    """Every rule by id, in the order of the page."""
    for module in ("switch", "launcher", "timeouts", "restarts", "bridge", "nodes", "yaml_file", "nemo_run", "signals"):
        import_module(f"{__name__}.{module}")
    return _RULES


def run_rules(job: Job, versions: Versions) -> tuple[list[Finding], list[str]]:
    """The findings over the job, and what could not be told (one line each)."""
    findings: list[Finding] = []
    unsure: dict[str, None] = {}
    for item in all_rules().values():
        applicable = _narrowed(item, versions)
        if applicable is None:
            continue
        for outcome in item.check(job, applicable):
            if isinstance(outcome, Unsure):
                unsure.setdefault(f"{outcome.place}: {outcome.reason}")
            else:
                findings.append(_finding(item, outcome, applicable))
    return list(dict.fromkeys(findings)), list(unsure)


def _narrowed(item: Rule, versions: Versions) -> Versions | None:
    if not item.holds:
        return versions
    from packaging.specifiers import SpecifierSet

    kept = {}
    for package in (NVRX, BRIDGE):
        wanted = SpecifierSet(item.holds.get(package, ""))
        kept[package] = tuple(version for version in versions.of(package) if wanted.contains(version))
        if not kept[package]:
            return None
    return Versions(kept[NVRX], kept[BRIDGE])


def _finding(item: Rule, hit: Hit, versions: Versions) -> Finding:
    return Finding(
        rule=item.id,
        severity=hit.severity or item.severity,
        confidence=hit.confidence or item.confidence,
        place=hit.place,
        problem=hit.problem,
        why=item.why,
        fix=hit.fix,
        versions="; ".join(_versions(item, hit, versions)),
        page=item.page,
    )


def _versions(item: Rule, hit: Hit, versions: Versions) -> Iterator[str]:
    prefixes = {fact.split(".")[0] for fact in item.facts}
    if "nvrx" in prefixes:
        yield f"NVRx {', '.join(hit.nvrx or versions.nvrx)}"
    if "bridge" in prefixes:
        first, last = versions.bridge[0], versions.bridge[-1]
        yield f"Megatron Bridge {first if first == last else f'{first} to {last}'}"
    if "nemo-run" in prefixes:
        yield "NeMo-Run 0.11.1"
