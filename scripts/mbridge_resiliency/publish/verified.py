# SPDX-License-Identifier: Apache-2.0
"""In which releases a fact holds, by the saved result of the version matrix."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Iterable, Mapping, Sequence

from packaging.version import Version

from ..facts import Fact
from ..upstream.guides import RESULT
from ..upstream.matrix import UNCLAIMED_HOLDS

HOLDS, WRONG = "h", "dg"


@cache
def matrix() -> Mapping[str, Any]:
    """results/upstream/matrix.json. Raises OSError where there is none."""
    return json.loads(RESULT.read_text(encoding="utf-8"))


@cache
def releases(package: str) -> Sequence[str]:
    """The versions of a package that the matrix has as releases of their own, oldest first."""
    names = (release["name"].rpartition(" ") for release in matrix()["releases"])
    return [version for name, _, version in names if name == package]


def there(fact: str, package: str) -> list[str]:
    """The versions of a package in whose row a fact holds, claimed or not, oldest first."""
    return [version for version, letter in _row(fact, package) if letter in (HOLDS, UNCLAIMED_HOLDS)]


def claimed(fact: str, package: str) -> list[str]:
    """The versions of a package in whose row a fact is claimed and holds, oldest first."""
    return [version for version, letter in _row(fact, package) if letter == HOLDS]


def _row(fact: str, package: str) -> list[tuple[str, str]]:
    """Raises KeyError for a fact that the saved result does not know."""
    letters = zip(matrix()["releases"], matrix()["verdicts"][fact], strict=True)
    names = [(release["name"].rpartition(" "), letter) for release, letter in letters]
    return [(version, letter) for (name, _, version), letter in names if name == package]


@cache
def newest(package: str) -> str:
    """The newest version of a package in any row of the matrix, or "" where it is in none."""
    versions = [release["packages"][package] for release in matrix()["releases"] if package in release["packages"]]
    return max(versions, key=Version, default="")


def in_newest(fact: Fact) -> bool:
    """True if a fact holds in every row with the newest version of its package whose other versions it claims."""
    package = fact.source["package"]
    letters = [
        letter
        for release, letter in zip(matrix()["releases"], matrix()["verdicts"].get(fact.id, ""))
        if release["packages"].get(package) == newest(package)
    ]
    return HOLDS in letters and not set(letters) & set(WRONG)


def wrong(fact: Fact) -> bool:
    """True if a fact does not hold in a release that it claims."""
    return bool(set(matrix()["verdicts"].get(fact.id, "")) & set(WRONG))


def checked(fact: Fact) -> bool:
    """True if a fact holds in a release that it claims: somewhere in the matrix there was something to find."""
    return HOLDS in matrix()["verdicts"].get(fact.id, "")


def code_verified(found: Iterable[Fact]) -> bool:
    """True if the facts hold at the newest versions: at least one does, and none is wrong in a release it claims."""
    known = list(found)
    return any(map(in_newest, known)) and not any(map(wrong, known))
