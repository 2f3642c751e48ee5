# SPDX-License-Identifier: Apache-2.0
"""A launcher's own options, read from its command line as its parser reads them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Sequence

from ... import facts
from ..model import HOLE, Launch, Option, Word

LAUNCHER_FACTS = "nvrx_launcher.yaml"
#: Options of torchrun that ft_launcher does not have; both share the rest.
TORCHRUN_ONLY = {
    "--duplicate-stdout-filters": "one",
    "--duplicate-stderr-filters": "one",
    "--event-log-handler": "one",
    "--numa-binding": "one",
    "--shutdown-timeout": "one",
    "--signals-to-handle": "one",
    "--use-env": "flag",
    "--virtual-local-rank": "flag",
}
#: A variable by such a name holds the script, not more options.
_SCRIPT_VARIABLE = re.compile(r"script|train|program|prog|entry|main|file|cmd|command|exec|app|py", re.I)


@lru_cache(maxsize=None)
def spellings() -> dict[str, tuple[str, str]]:
    """Every spelling that some version accepts -> (canonical name, how many values it takes)."""
    found: dict[str, tuple[str, str]] = {}
    for fact in facts.in_file(LAUNCHER_FACTS).values():
        if fact.kind == "option":
            for spelling in (fact.says["name"], *fact.says.get("also", ())):
                found[spelling] = (fact.says["name"], fact.says["takes"])
    return found


@lru_cache(maxsize=None)
def environment_names() -> dict[str, str]:
    """Canonical name -> the environment variable read where the option is absent."""
    entries = facts.in_file(LAUNCHER_FACTS).values()
    return {fact.says["name"]: fact.says["env"] for fact in entries if "env" in fact.says and fact.kind == "option"}


def read_options(launch: Launch, words: Sequence[Word]) -> None:
    """Fill the launch's options, script and arguments from the words after the launcher's name.

    Options end at the first word that is none: the script. What stands after it belongs to the script.
    """
    accepted = dict(spellings())
    if launch.program == "torchrun":
        for name, takes in TORCHRUN_ONLY.items():
            accepted[name] = accepted[name.replace("-", "_").replace("__", "--", 1)] = (name, takes)
    launch.option_env = environment_names()
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if word.text == "--":
            break
        if word.text == HOLE and word.splits:
            if _holds_script(word) or position == len(words):
                position -= 1
                break
            launch.complete = False
            continue
        if not word.text.startswith("-") or word.text == "-":
            position -= 1
            break
        given, equals, value = word.text.partition("=")
        if HOLE in given:
            launch.complete = False
            continue
        name, takes = accepted.get(given, (given, "unknown"))
        text: str | None = value if equals else None
        source = word.source
        if takes == "unknown" and len(given) > 2 and not given.startswith("--") and given[:2] in accepted:
            name, takes, text = accepted[given[:2]][0], "one", given[2:]
        elif not equals and (takes == "one" or (takes == "unknown" and _takes_value(words, position))):
            text = words[position].text if position < len(words) else ""
            source = words[position].source if position < len(words) else ""
            position += 1
        if name == "--module":
            launch.module = True
        launch.sources[name] = source
        launch.options.append(Option(name, given, text, word.place, known=takes != "unknown"))
    if position < len(words):
        launch.script = words[position]
        launch.arguments = list(words[position + 1 :])
        if any(option.name == "--no-python" for option in launch.options):
            _find_script(launch)


def _holds_script(word: Word) -> bool:
    return bool(_SCRIPT_VARIABLE.search(word.source)) and not re.search(r"arg|opt|flag", word.source, re.I)


def _takes_value(words: Sequence[Word], position: int) -> bool:
    """For an option that no version knows: whether the next word is its value rather than the script."""
    if position + 1 >= len(words):
        return False
    text = words[position].text
    return not text.startswith("-") and not text.endswith((".py", ".sh")) and text != HOLE


def _find_script(launch: Launch) -> None:
    """With --no-python the launcher starts a program; the training script is the first .py word after it."""
    words = [launch.script, *launch.arguments]
    for index, word in enumerate(words):
        if word is not None and word.text.endswith(".py"):
            launch.script, launch.arguments = word, [w for w in words[index + 1 :] if w is not None]
            return
