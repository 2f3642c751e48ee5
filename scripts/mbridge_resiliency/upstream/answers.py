# SPDX-License-Identifier: Apache-2.0
"""What a verifier is given, and what it answers."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any, Iterable, Mapping

from ..facts import Fact
from .symbols import File, Symbols, Value
from .syntax import HOLE

HOLDS, DIFFERS, GONE, COULD_NOT_TELL = "holds", "differs", "gone", "could_not_tell"
VERDICTS = (HOLDS, DIFFERS, GONE, COULD_NOT_TELL)
#: Worst first: what a fact with several proofs comes to.
ORDER = (GONE, DIFFERS, COULD_NOT_TELL, HOLDS)


@dataclass(frozen=True)
class Answer:
    """A verdict, and what Verdict says beside it."""

    verdict: str
    place: str = ""
    claimed: str = ""
    found: str = ""
    reason: str = ""


def holds(file: File | None = None, line: int = 0) -> Answer:
    """It stands there; without a line, it is the whole file that says so."""
    return Answer(HOLDS, _place(file, line))


def differs(what: str, claimed: object, found: object, file: File | None = None, line: int = 0) -> Answer:
    """It is there, and is not what is claimed. what: the thing that both values are of."""
    return Answer(DIFFERS, _place(file, line), f"{what} {shown(claimed)}", f"{what} {shown(found)}")


def _place(file: File | None, line: int) -> str:
    return "" if file is None else f"{file}:{line}" if line else str(file)


def gone(what: str, name: str, near: Iterable[str] = ()) -> Answer:
    """It is not there. near: names or texts of its kind that are."""
    close = difflib.get_close_matches(name, list(near), n=2, cutoff=0.5)
    nearest = f"nearest: {' | '.join(map(shown, close))}" if close else "nothing like it there"
    return Answer(GONE, claimed=f"{what} {shown(name)}", reason=nearest)


def unknown(reason: str) -> Answer:
    """It could not be told."""
    return Answer(COULD_NOT_TELL, reason=reason)


def shown(value: object) -> str:
    """A value in one bounded line."""
    text = str(value) if isinstance(value, (Value, str)) else repr(value)
    text = text.replace(HOLE, "{}").replace("\n", "\\n")
    return text if len(text) <= 160 else text[:157] + "..."


@dataclass
class At:
    """Where a fact's source points, in one release."""

    fact: Fact
    symbols: Symbols
    file: File
    symbol: str

    @property
    def says(self) -> Mapping[str, Any]:
        """The fact's statement."""
        return self.fact.says

    def within(self, place: str) -> bool:
        """True if a place in the file is the symbol or inside it."""
        return not self.symbol or place == self.symbol or place.startswith(self.symbol + ".")


#: Nothing was named that could be proven.
NO_PROOF = unknown("")


def other_symbol(at: At, place: str, line: int) -> Answer:
    """It stands in the file, and not in the symbol that the fact names."""
    return differs("symbol", at.symbol, place or "the module", at.file, line)
