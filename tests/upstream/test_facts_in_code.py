# SPDX-License-Identifier: Apache-2.0
"""Code and guides that name upstream's options, settings and lines name those that the facts have."""

import ast
import re
from pathlib import Path

import pytest

import mbridge_resiliency
from mbridge_resiliency import facts as fact_store
from mbridge_resiliency.publish import results

PACKAGE = Path(mbridge_resiliency.__file__).parent
OPTION = re.compile(r"(?<![\w-])--ft-[a-z][\w-]*[a-z](?![\w*-])")
CODE = sorted(path for part in ("launch", "logs", "publish") for path in (PACKAGE / part).rglob("*.py"))


SKILL = PACKAGE.parents[1]
#: The first two quote what is wrong, the last names code.
QUOTING = {"launch-rules.md", "vendor-differences.md", "code-anchors.md"}
GUIDES = sorted(
    {SKILL / "SKILL.md", *(SKILL / "references").glob("*.md")} - {SKILL / "references" / n for n in QUOTING}
)
SLOTS = "ft|checkpoint|train|dist|logger|straggler|nvrx_straggler|rerun_state_machine|inprocess_restart"


def options():
    """Every spelling that a version of ft_launcher takes or used to take."""
    return {
        spelling
        for kind in ("option", "removed_option")
        for fact in fact_store.of_kind(kind)
        for spelling in (fact.says["name"], *fact.says.get("also", ()))
    }


def strings(path):
    """The file's string literals, docstrings included."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]


@pytest.mark.parametrize("path", CODE, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_options_of_the_launcher_are_those_of_the_facts(path):
    named = {option for text in strings(path) for option in OPTION.findall(text)}
    assert named - options() == set()


def test_an_option_that_no_fact_has_would_be_named():
    assert OPTION.findall("use --ft-nonsense=1") == ["--ft-nonsense"]


@pytest.mark.parametrize("path", CODE, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_format_string_of_upstream_is_written_again(path):
    """A signature that repeats a fact's text would go on matching after the fact was corrected."""
    texts = {str(fact.says["text"]).strip(): fact.id for fact in fact_store.of_kind("log_line")}
    again = {texts[text.strip()] for text in strings(path) if len(text.strip()) > 12 and text.strip() in texts}
    assert again == set()


@pytest.mark.parametrize("page", GUIDES, ids=lambda path: path.name)
def test_guides_name_options_settings_and_drills_that_there_are(page):
    text = page.read_text(encoding="utf-8")
    assert set(OPTION.findall(text)) - options() == set()
    fields = fact_store.of_kind("config_field")
    settings = {f"{fact.says['slot']}.{fact.says['field']}" for fact in fields if "slot" in fact.says}
    named = {f"{slot}.{name}" for slot, name in re.findall(rf"`(?:cfg\.)?({SLOTS})\.([a-z_][a-z_]+)[`=]", text)}
    assert named - settings == set()
    drills = {name.removeprefix("drill:") for name in map(results.name, results.measured())}
    assert set(re.findall(r"\bdrills? `([\w-]+)`", text)) - drills == set()
