# SPDX-License-Identifier: Apache-2.0
"""The releases that facts are verified against, and what verification found there, as data."""

from __future__ import annotations

import datetime
import hashlib
import json
import time
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Mapping, Sequence

from .. import __version__
from ..facts import Fact
from . import verify, wheels
from .sources import Release
from .verify import Verdict

SCHEMA_VERSION = 1
#: One letter a release in the saved result, where the fact claims it.
LETTERS = {verify.HOLDS: "h", verify.DIFFERS: "d", verify.GONE: "g", verify.COULD_NOT_TELL: "?"}
#: Where it does not: whether it holds all the same, and where it is not about the release's packages.
UNCLAIMED_HOLDS, UNCLAIMED, NOT_ABOUT = "+", "x", "-"


@lru_cache(maxsize=1)
def table() -> Mapping[str, Any]:
    """matrix.yaml: `releases`, `parsers` and `classes`."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with (Path(__file__).parent / "matrix.yaml").open(encoding="utf-8") as handle:
        return yaml.load(handle, Loader=loader)


def packages_of(name: str, version: str) -> dict[str, str]:
    """The packages a named release is read with: itself, and for Bridge what the matrix says that it pins.

    A Bridge release that the matrix does not know is read with what the newest known one has.
    """
    rows = [row for row in table()["releases"] if next(iter(row)) == name]
    row = next((row for row in rows if row[name] == version), rows[-1] if rows else {})
    return {**row, name: version}


def release(packages: Mapping[str, str], download: bool = False) -> Release:
    """A release from wheels; its name is that of its first package.

    Raises:
        wheels.NotThere: a wheel is missing.
    """
    found = {name: wheels.wheel(name, str(version), download) for name, version in packages.items()}
    first = next(iter(found.values()))
    return Release(str(first), dict(found))


@dataclass(frozen=True)
class Row:
    """One release of the matrix: its packages, verdicts and the seconds they took, or why it was not read."""

    name: str
    packages: Mapping[str, str]
    verdicts: Sequence[Verdict]
    seconds: float = 0.0
    missing: str = ""

    def counts(self) -> Counter[str]:
        """Verdict -> number of facts that claim this release."""
        return Counter(verdict.verdict for verdict in self.verdicts if verdict.claims)


def run(facts: Sequence[Fact], download: bool = False, outside: bool = False) -> list[Row]:
    """Verify the facts in every release of the matrix; a release without its wheels is a row that says so."""
    rows = []
    for packages in table()["releases"]:
        name = " ".join(map(str, next(iter(packages.items()))))
        versions = {key: str(version) for key, version in packages.items()}
        started = time.perf_counter()
        try:
            found = release(packages, download)
        except wheels.NotThere as error:
            rows.append(Row(name, versions, (), missing=str(error)))
            continue
        verdicts = verify.verify_all(facts, found, outside)
        rows.append(Row(name, versions, verdicts, time.perf_counter() - started))
    return rows


def as_data(rows: Sequence[Row], facts: Sequence[Fact]) -> dict[str, Any]:
    """The result as it is committed: counts, one letter a fact and release, and every claim that does not hold.

    rows: from run with outside=True, so that a feature which a release lacks is told from one nobody looked for.
    """
    by_fact: dict[str, list[str]] = {fact.id: [NOT_ABOUT] * len(rows) for fact in facts}
    for column, row in enumerate(rows):
        for verdict in row.verdicts:
            by_fact[verdict.fact][column] = _letter(verdict)
    kinds = Counter(fact.kind for fact in facts)
    return {
        "schema_version": SCHEMA_VERSION,
        "tool_version": __version__,
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "facts": {"count": len(facts), "digest": digest(facts), "by_kind": dict(sorted(kinds.items()))},
        "letters": {letter: verdict for verdict, letter in LETTERS.items()}
        | {
            UNCLAIMED_HOLDS: "holds, and is not claimed there",
            UNCLAIMED: "not claimed there, and does not hold",
            NOT_ABOUT: "about another package",
        },
        "releases": [
            {
                "name": row.name,
                "packages": dict(row.packages),
                "missing": row.missing and "no wheel",
                "seconds": round(row.seconds, 2),
                "counts": {verdict: row.counts()[verdict] for verdict in verify.VERDICTS},
            }
            for row in rows
        ],
        "verdicts": {fact: "".join(letters) for fact, letters in by_fact.items()},
        "not_holding": [
            _entry(verdict)
            for row in rows
            for verdict in row.verdicts
            if verdict.claims and verdict.verdict != verify.HOLDS
        ],
    }


def _letter(verdict: Verdict) -> str:
    if verdict.claims:
        return LETTERS[verdict.verdict]
    return UNCLAIMED_HOLDS if verdict.verdict == verify.HOLDS else UNCLAIMED


def digest(facts: Sequence[Fact]) -> str:
    """Changes when any statement, range or source does: what a saved result is of."""
    said = [[fact.id, fact.kind, fact.says, fact.holds, fact.source, fact.shown_by] for fact in facts]
    text = json.dumps(sorted(said, key=lambda entry: str(entry[0])), sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=10).hexdigest()


def _entry(verdict: Verdict) -> dict[str, str]:
    wanted = ("fact", "release", "verdict", "place", "claimed", "found", "reason")
    return {name: getattr(verdict, name) for name in wanted if getattr(verdict, name)}
