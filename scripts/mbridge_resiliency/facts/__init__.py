# SPDX-License-Identifier: Apache-2.0
"""Statements about upstream as data, each with its source and the versions it holds for.

A fact file is YAML: a mapping with one key, `facts`, a list of entries:

    - id: nvrx.option.max-restarts         # unique, stable
      kind: option                         # see KINDS
      says: {name: --max-restarts, ...}    # the statement; its keys depend on the kind
      holds: {nvidia-resiliency-ext: ">=0.5.0"}
      source: {package: nvidia-resiliency-ext, file: nvidia_resiliency_ext/fault_tolerance/launcher.py,
        symbol: get_args_parser}
      shown_by: drill:hang-step            # only where a run, not the source, shows it
      note: one sentence, where the statement needs it

The facts know nothing of rules, signatures or pages; those look facts up by id or kind.

`scripts/check_upstream.py` proves them in each version that `holds` names, by reading the source (upstream/verify.py).
`source.file` is as installed, `source.symbol` a class, function, `Class.method` or constant in it; both must be there.
What no kind can say is proven by code that stands there, or does not:

      source: {package: ..., file: ..., symbol: f, has: "executor.retries = ...", lacks: "....send_heartbeat(...)"}

`has` and `lacks` are one pattern or a list (upstream/patterns.py says what a pattern is); in a file that is no Python
they are text, and with a glob (`file: nvidia_resiliency_ext/**`) text in any of its files. `also` is a list of further
sources that must hold as well.

Values of `says`:
    default, value   a plain value; `{}` and `[]` for an empty factory, `<required>` for none, a name as text (SIGTERM)
    type             Python ("Optional[int]", "int or null"); prose is not compared
    text             a whole line, or a part of one that stands together; {name} marks a variable part
    takes            flag, one, many or rest; `also` (other spellings), `choices`, `type`, `env` may be added
    level            the logging level; "none" for what is printed, "exception" for what is raised
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Iterator, Mapping

#: kind -> keys that `says` must have
KINDS: dict[str, frozenset[str]] = {
    "option": frozenset({"name", "takes", "default"}),  # a command-line option; takes: flag | one | many | rest
    "removed_option": frozenset({"name", "instead"}),  # an option that these versions refuse
    "config_field": frozenset({"class", "field", "type", "default"}),
    "yaml_key": frozenset({"key"}),
    "section": frozenset({"name"}),  # a monitored section that Bridge opens
    "constant": frozenset({"name", "value"}),  # module level, or Class.NAME
    "parameter": frozenset({"name", "default"}),  # of the function in source.symbol
    "log_line": frozenset({"text", "level", "logger", "rank"}),  # text: {name} marks a variable part
    "error": frozenset({"raises", "text"}),
    "validation": frozenset({"raises", "text"}),  # an error in a setting, found before training starts
    "exit_code": frozenset({"code", "program", "means"}),
    "env_var": frozenset({"name"}),  # with read_by or set_by
    "file": frozenset({"path", "written_by"}),  # that upstream writes; the last part of path is looked for
    "path": frozenset({"path"}),  # of upstream itself; exists: false where it is not there
    "entry_point": frozenset({"name"}),  # target
    "signal": frozenset({"signal", "sent_by", "to"}),
    "behaviour": frozenset({"statement"}),
    "requirement": frozenset({"needs"}),  # python, glibc or a distribution, with spec (extra): from the built metadata
    "upstream_bug": frozenset({"symptom", "way_round"}),
}


@dataclass(frozen=True)
class Fact:
    """One statement about upstream.

    Attributes:
        id: unique and stable.
        kind: a key of KINDS.
        says: the statement as data.
        holds: package -> version specifier (PEP 440) that the statement is claimed for.
        source: package, file (as installed) and symbol, and where needed has, lacks and also.
        shown_by: the drill or committed result that shows it, where source alone cannot.
    """

    id: str
    kind: str
    says: Mapping[str, Any]
    holds: Mapping[str, str]
    source: Mapping[str, Any]
    shown_by: str | None = None
    note: str | None = None
    file: str = field(default="", compare=False)

    def holds_for(self, package: str, version: str) -> bool:
        """True if the fact is claimed for this version of the package; a package it does not name does not limit it."""
        from packaging.specifiers import SpecifierSet

        wanted = self.holds.get(package)
        return wanted is None or SpecifierSet(wanted).contains(version, prereleases=True)


@lru_cache(maxsize=None)
def in_file(name: str) -> Mapping[str, Fact]:
    """The facts of one file ("nvrx_launcher.yaml") by id, in its order.

    Raises:
        ValueError: the file breaks the form in this module's docstring; the message names file and entry.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with (Path(__file__).parent / name).open(encoding="utf-8") as handle:
        try:
            entries = yaml.load(handle, Loader=loader)["facts"]
        except (yaml.YAMLError, TypeError, KeyError) as error:
            said = " ".join(str(error).split())
            raise ValueError(f"{name}: no YAML mapping with the key facts ({said})") from error
    facts: dict[str, Fact] = {}
    for entry in entries:
        fact = _fact(entry, name)
        if fact.id in facts:
            raise ValueError(f"{name}: {fact.id} is there twice")
        facts[fact.id] = fact
    return facts


@lru_cache(maxsize=None)
def all_facts() -> Mapping[str, Fact]:
    """Every fact by id, in file order. Raises ValueError as in_file, or for an id that two files claim."""
    facts: dict[str, Fact] = {}
    for path in sorted(Path(__file__).parent.glob("*.yaml")):
        for fact in in_file(path.name).values():
            if fact.id in facts:
                raise ValueError(f"{path.name}: {fact.id} is also in {facts[fact.id].file}")
            facts[fact.id] = fact
    return facts


def _fact(entry: Mapping[str, Any], file: str) -> Fact:
    name = entry.get("id", "an entry without id")
    unknown = set(entry) - {"id", "kind", "says", "holds", "source", "shown_by", "note"}
    absent = {"id", "kind", "says", "holds", "source"} - set(entry)
    if unknown or absent:
        raise ValueError(f"{file}: {name}: unknown keys {sorted(unknown)}, absent keys {sorted(absent)}")
    if entry["kind"] not in KINDS:
        raise ValueError(f"{file}: {name}: kind {entry['kind']!r} is none of {', '.join(KINDS)}")
    lacking = KINDS[entry["kind"]] - set(entry["says"])
    if lacking:
        raise ValueError(f"{file}: {name}: says lacks {sorted(lacking)}, which kind {entry['kind']} needs")
    return Fact(file=file, **entry)


def fact(fact_id: str) -> Fact:
    """The fact with this id. Raises KeyError."""
    return all_facts()[fact_id]


def of_kind(kind: str, **versions: str) -> Iterator[Fact]:
    """Facts of one kind; versions (package name with _ for -) narrows to those that hold there."""
    wanted = {name.replace("_", "-"): version for name, version in versions.items()}
    for item in all_facts().values():
        if item.kind == kind and all(item.holds_for(package, version) for package, version in wanted.items()):
            yield item
