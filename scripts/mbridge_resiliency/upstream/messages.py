# SPDX-License-Identifier: Apache-2.0
"""Whether a message that a fact quotes stands in a file's format strings."""

from __future__ import annotations

import difflib
import re
from typing import Iterable, Iterator

from .answers import GONE, Answer, At, differs, other_symbol, shown
from .syntax import HOLE, Message, holes_of_braces, holes_of_percent


def core(text: str) -> str:
    """A text without the holes and blanks at its ends."""
    return re.sub(f"{HOLE}+", HOLE, text).strip(HOLE + " \n\t")


def readings(text: str) -> Iterator[str]:
    """A message as it stands, and as the format string it may be used as later."""
    yield text
    if "%" in text:
        yield re.sub(f"{HOLE}+", HOLE, holes_of_percent(text))
    if "{" in text:
        yield re.sub(f"{HOLE}+", HOLE, holes_of_braces(text))


def _contains(at: At, message: Message, loose: re.Pattern[str]) -> bool:
    if any(loose.search(reading) for text in message["texts"] for reading in readings(text)):
        return True
    return any(loose.search(text) for text in filled(at, message))


def filled(at: At, message: Message) -> Iterator[str]:
    """The message with the constants that it names, where there are any."""
    if not message["names"]:
        return
    values = [at.symbols.value(at.file, name, message["place"]) if name else None for name in message["names"]]
    if any(value is not None and value.known for value in values):
        parts = message["texts"][0].split(HOLE)
        known = [str(value.value) if value is not None and value.known else HOLE for value in values]
        yield "".join(a + b for a, b in zip(parts, [*known, ""]))


def _loose(claimed: str) -> re.Pattern[str]:
    """A hole in the claim is anything on that line; the fixed parts must stand there, in order."""
    hole = "[^\n]*?" if len(claimed.replace(HOLE, "").strip()) >= 6 else HOLE
    return re.compile(re.escape(claimed).replace(re.escape(HOLE), hole))


def find(at: At, text: str) -> tuple[list[Message], Answer | None]:
    """The messages in the symbol that contain a claimed text, or the answer that there is none."""
    claimed = core(holes_of_braces(str(text)))
    loose = _loose(claimed)
    everywhere = [message for message in at.file.index["messages"] if _contains(at, message, loose)]
    found = [message for message in everywhere if at.within(message["place"])]
    if found:
        return found, None
    if everywhere:
        return [], other_symbol(at, everywhere[0]["place"], everywhere[0]["line"])
    here = [t for m in at.file.index["messages"] if at.within(m["place"]) for t in m["texts"]]
    close = _closest(claimed, here)
    if close is not None:
        line = next(m["line"] for m in at.file.index["messages"] if close in m["texts"])
        return [], differs("text", text, close, at.file, line)
    other = _elsewhere(at, claimed)
    return [], Answer(GONE, claimed=f"text {shown(text)}", reason=other or "nothing like it there")


def _closest(claimed: str, texts: Iterable[str]) -> str | None:
    """The text that has a line most like the claim, where it is the same message with another wording."""
    best, best_ratio = None, 0.75
    for text in texts:
        for line in text.split("\n"):
            matcher = difflib.SequenceMatcher(None, claimed, core(line), autojunk=False)
            if matcher.real_quick_ratio() > best_ratio and matcher.quick_ratio() > best_ratio:
                ratio = matcher.ratio()
                if ratio > best_ratio:
                    best, best_ratio = text, ratio
    return best


def _elsewhere(at: At, claimed: str) -> str:
    """Where else in the package the longest fixed part of a text stands."""
    longest = max(claimed.split(HOLE), key=len).strip().split("\n")[0]
    if len(longest) < 8:
        return ""
    for name in sorted(at.file.package.files):
        if name.endswith(".py") and name != at.file.path:
            text = at.file.package.text(name)
            if longest in text:
                line = text[: text.index(longest)].count("\n") + 1
                return f"nearest: the same words in {name}:{line}"
    return ""
