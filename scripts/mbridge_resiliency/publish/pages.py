# SPDX-License-Identifier: Apache-2.0
"""Fills the generated parts of the pages."""

from __future__ import annotations

import re
from pathlib import Path

from .blocks import BLOCKS
from .results import ROOT

_OPEN = re.compile(r"^<!-- generated: (?P<name>[\w-]+) -->$", re.MULTILINE)
_CLOSE = "<!-- end generated -->"


def pages() -> list[Path]:
    """Every page that may have a generated part."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("references/*.md"), *ROOT.glob("examples/**/*.md")])


def fill(text: str, page: str) -> str:
    """The page's text with each block as it must be.

    Raises:
        ValueError: a block that nobody writes, or one that does not end; the message names page and block.
    """
    filled, position = "", 0
    for match in _OPEN.finditer(text):
        name = match["name"]
        end = text.find(_CLOSE, match.end())
        if name not in BLOCKS:
            raise ValueError(f"{page}: no block is called {name}; there are: {', '.join(BLOCKS)}")
        if end < 0 or _OPEN.search(text, match.end(), end):
            raise ValueError(f"{page}: block {name} has no `{_CLOSE}`")
        filled += f"{text[position : match.end()]}\n\n{BLOCKS[name]().strip()}\n\n"
        position = end
    return filled + text[position:]
