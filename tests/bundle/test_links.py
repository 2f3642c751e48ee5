# SPDX-License-Identifier: Apache-2.0
"""Every file, section, script, drill and rule that a page names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import bundle

PAGES = [name for name in bundle.tracked() if name.endswith(".md")]
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
#: A path of this repository in code or a command: it begins with one of the repository's own folders.
_PATH = re.compile(r"(?<![\w./-])(?P<path>(?:scripts|references|examples|results|tests)/[\w./-]*\w)")
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def test_pages_are_found() -> None:
    assert {"SKILL.md", "README.md", "references/fault-tolerance.md", "references/launch-rules.md"} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    broken = []
    for match in _LINK.finditer(_read(page)):
        target, _, section = match["target"].partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        path = (bundle.ROOT / page).parent / target if target else bundle.ROOT / page
        if not path.exists() or (section and section not in _sections(path)):
            broken.append(match[0])
    assert not broken


#: Pages that name other people's files: the example jobs of the rules, and upstream's own paths.
ELSEWHERE = {"references/launch-rules.md", "references/vendor-differences.md", "references/code-anchors.md"}


@pytest.mark.parametrize("page", [page for page in PAGES if page not in ELSEWHERE | {"CHANGELOG.md"}])
def test_named_paths_exist(page: str) -> None:
    named = {match["path"] for match in _PATH.finditer(_read(page))}
    assert not [path for path in named if not (bundle.ROOT / path).exists()]


@pytest.mark.parametrize("page", PAGES)
def test_named_drills_exist(page: str) -> None:
    from mbridge_resiliency.drills.catalogue import ALIASES, DRILLS

    named = re.findall(r"drill\.py run ([a-z][\w-]*)", _read(page))
    for group in re.findall(r"[Dd]rills?:? ((?:`[\w-]+`(?:, | and )?)+)", _read(page)):
        named += re.findall(r"`([\w-]+)`", group)
    assert not set(named) - set(DRILLS) - set(ALIASES) - {"all"}


def test_references_are_one_level_deep() -> None:
    assert not [name for name in bundle.tracked() if name.startswith("references/") and name.count("/") > 1]


def test_commands_in_pages_have_the_options_they_use() -> None:
    """Each `scripts/X.py --option` in a page is an option that X's own help names."""
    import subprocess
    import sys

    used: dict[str, set[str]] = {}
    for page in PAGES:
        for script, rest in re.findall(r"scripts/(\w+\.(?:py|sh))((?: [^\n`|]*)?)", _read(page)):
            used.setdefault(script, set()).update(re.findall(r"(?<!\S)(--[a-z][a-z-]+)", rest))
    assert used["check_launch.py"]
    for script, options in used.items():
        path = bundle.ROOT / "scripts" / script
        if not options or not script.endswith(".py"):
            continue
        text = ""
        for action in ([], ["run"]) if script == "drill.py" else ([],):
            text += subprocess.run(
                [sys.executable, str(path), *action, "--help"], capture_output=True, text=True
            ).stdout
        assert not {option for option in options if option not in text}, script


def _read(page: str) -> str:
    return (bundle.ROOT / page).read_text(encoding="utf-8")


def _sections(path: Path) -> set[str]:
    """Anchors of a page's headings, as Git hosts make them."""
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
