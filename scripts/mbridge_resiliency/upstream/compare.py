# SPDX-License-Identifier: Apache-2.0
"""What changed between two releases that matters to resiliency: options, settings, and what the facts are about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterable, Mapping

from ..facts import Fact
from . import parsers, verify
from .matrix import table
from .sources import Release
from .symbols import Symbols


@dataclass(frozen=True, order=True)
class Change:
    """One difference.

    Attributes:
        area: options, settings, facts.
        what: the option, Class.field or fact id.
        change: added, removed, changed, "holds no longer" or "holds now".
        before, after: values where both are known.
    """

    area: str
    what: str
    change: str
    before: str = ""
    after: str = ""


def changes(since: Release, until: Release, facts: Iterable[Fact]) -> list[Change]:
    """Every change from one release to another, in the order of the attributes of Change."""
    old, new = Symbols(since), Symbols(until)
    found = [*_options(old, new), *_settings(old, new), *_facts(since, until, facts)]
    old.keep()
    new.keep()
    return sorted(set(found))


def _difference(area: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """Between two mappings of name -> what is to be compared, as text."""
    result = [Change(area, name, "added", after=str(new[name])) for name in new.keys() - old.keys()]
    result += [Change(area, name, "removed", before=str(old[name])) for name in old.keys() - new.keys()]
    both = old.keys() & new.keys()
    result += [Change(area, n, "changed", str(old[n]), str(new[n])) for n in both if str(old[n]) != str(new[n])]
    return result


def _options(old: Symbols, new: Symbols) -> list[Change]:
    result: list[Change] = []
    for place in table()["parsers"]:
        if all(place["package"] in symbols.release.packages for symbols in (old, new)):
            result += _difference("options", *(_option_table(symbols, place) for symbols in (old, new)))
    return result


def _option_table(symbols: Symbols, place: Mapping[str, str]) -> dict[str, str]:
    file = symbols.file(place["file"])
    if file is None:
        return {}
    result = {}
    for option in parsers.options(symbols, file, place["symbol"]):
        choices = f", one of {option.choices}" if option.choices else ""
        result[", ".join(option.names)] = f"takes {option.takes}, default {option.default}{choices}"
    return result


def _settings(old: Symbols, new: Symbols) -> list[Change]:
    result: list[Change] = []
    for place in table()["classes"]:
        if all(place["package"] in symbols.release.packages for symbols in (old, new)):
            for name in place["symbols"]:
                result += _difference("settings", *(_field_table(s, place, name) for s in (old, new)))
    return result


def _field_table(symbols: Symbols, place: Mapping[str, Any], name: str) -> dict[str, str]:
    file = symbols.file(place["file"])
    if file is None or name not in file.index["classes"]:
        return {}
    fields = symbols.class_fields(file, name).fields.values()
    public = [field for field in fields if not field.name.startswith("_")]
    return {f"{place['package']} {name}.{field.name}": f"{field.type} = {field.default}" for field in public}


#: Kinds whose changes stand in full under options and settings.
_LISTED_IN_FULL = frozenset({"option", "removed_option", "config_field", "yaml_key"})


def _facts(since: Release, until: Release, facts: Iterable[Fact]) -> list[Change]:
    """Facts that hold in one and not in the other, whatever versions they claim."""
    both = [fact for fact in facts if verify.about(fact, since) and verify.about(fact, until)]
    known = [fact for fact in both if fact.kind not in _LISTED_IN_FULL]
    before = {verdict.fact: verdict for verdict in verify.verify_all(known, since, outside=True)}
    after = {verdict.fact: verdict for verdict in verify.verify_all(known, until, outside=True)}
    result = []
    for fact in known:
        old, new = before[fact.id], after[fact.id]
        if old.verdict == new.verdict or verify.COULD_NOT_TELL in (old.verdict, new.verdict):
            continue
        if old.verdict == verify.HOLDS:
            result.append(Change("facts", fact.id, "holds no longer", _statement(fact), new.found or new.reason))
        elif new.verdict == verify.HOLDS:
            result.append(Change("facts", fact.id, "holds now", after=_statement(fact)))
    return result


def _statement(fact: Fact) -> str:
    """What the fact says, in one line."""
    for key in ("text", "statement", "symptom", "name", "path", "code", "signal", "needs"):
        if key in fact.says:
            return str(fact.says[key])
    return ""
