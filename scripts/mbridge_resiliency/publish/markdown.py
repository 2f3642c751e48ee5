# SPDX-License-Identifier: Apache-2.0
"""Markdown tables and the values in them."""

from __future__ import annotations

from typing import Any, Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells are Markdown, with pipes escaped here."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def code(text: Any) -> str:
    """As code; a text with a backtick or blanks at its ends stays whole."""
    shown = str(text)
    fence = "``" if "`" in shown else "`"
    return f"{fence}{shown}{fence}"


def value(setting: Any) -> str:
    """A default: none where there is none."""
    if setting is None or setting == "":
        return "none"
    if isinstance(setting, bool):
        return "on" if setting else "off"
    if isinstance(setting, float):
        return f"{setting:g}"
    return str(setting)


def seconds(measured: float | None) -> str:
    """One decimal; a dash where there was no such moment."""
    return "-" if measured is None else f"{measured:.1f}"


def answer(equal: bool | None) -> str:
    """yes, no, or a dash where it does not apply."""
    return "-" if equal is None else "yes" if equal else "no"
