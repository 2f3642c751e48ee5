# SPDX-License-Identifier: Apache-2.0
"""One verifier a kind of fact. Each is given where the fact's source points and answers from what stands there."""

from __future__ import annotations

import fnmatch
import re
from typing import Any, Callable, Iterable

from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from ..facts import Fact
from .answers import DIFFERS, GONE, HOLDS, NO_PROOF, Answer, At, differs, gone, holds, other_symbol, unknown
from .messages import core, filled, find, readings
from .parsers import Option, options
from .sources import Package
from .symbols import Field, File, Value, same_type, same_value
from .syntax import HOLE, holes_of_braces

# ---- options ----


def _parser(at: At) -> list[Option]:
    """The options of the parser that the symbol builds; none where it is no function."""
    known: dict[tuple[str, str], list[Option]] = at.symbols.parsers
    key = (at.file.path, at.symbol)
    if key not in known:
        known[key] = options(at.symbols, at.file, at.symbol) if at.symbol in at.file.index["parameters"] else []
    return known[key]


def _option(at: At) -> Answer:
    says = at.says
    found = [option for option in _parser(at) if says["name"] in option.names]
    if not found:
        return gone("option", says["name"], (name for option in _parser(at) for name in option.names))
    option = found[-1]
    spellings = says.get("also", says.get("aliases"))
    if spellings is not None and {says["name"], *spellings} != set(option.names):
        return differs("spellings", sorted({says["name"], *spellings}), sorted(option.names), option.file, option.line)
    if says["takes"] != option.takes:
        return differs("takes", says["takes"], option.takes, option.file, option.line)
    positional = not says["name"].startswith("-")
    if not positional and not same_value(says["default"], option.default):
        return differs("default", says["default"], option.default, option.file, option.line)
    if says.get("choices") is not None:
        if option.choices is None or not _same_set(says["choices"], option.choices):
            return differs("choices", says["choices"], option.choices or "none", option.file, option.line)
    if says.get("type") is not None and option.type is not None and re.fullmatch(r"[\w.]+", option.type):
        if says["type"] not in (option.type, option.type.split(".")[0]):
            return differs("type", says["type"], option.type, option.file, option.line)
    if says.get("env") is not None and bool(says["env"]) != option.env:
        return differs("env", says["env"], option.env, option.file, option.line)
    return holds(option.file, option.line)


def _same_set(claimed: Iterable[Any], found: Value) -> bool:
    return found.known and set(claimed) == set(found.value)


def _removed_option(at: At) -> Answer:
    pattern = at.says["name"]
    for option in _parser(at):
        for name in option.names:
            if fnmatch.fnmatchcase(name, pattern):
                return differs("option", f"{pattern} refused", f"{name} accepted", option.file, option.line)
    return holds(at.file, at.file.index["symbols"][at.symbol][0])


# ---- names and values ----


def _same_field(at: At, found: Field, what: str) -> Answer:
    says = at.says
    if "default" in says and not same_value(says["default"], found.default):
        return differs(f"{what} default", says["default"], found.default, found.file, found.line)
    if says.get("type") is not None and same_type(says["type"], found.type) is False:
        return differs(f"{what} type", says["type"], found.type or "none", found.file, found.line)
    return holds(found.file, found.line)


def _config_field(at: At) -> Answer:
    name = at.says.get("class") or at.symbol
    where = at.symbols.resolve(at.file, name) if name not in at.file.index["classes"] else (at.file, name)
    if where is None or where[1] not in where[0].index["classes"]:
        return gone("class", name, at.file.index["classes"])
    return _field(at, *where, at.says["field"])


def _field(at: At, file: File, class_name: str, name: str) -> Answer:
    known = at.symbols.class_fields(file, class_name)
    if name in known.fields:
        return _same_field(at, known.fields[name], name)
    if known.unread:
        return unknown(f"{class_name} inherits from {', '.join(known.unread)}, which no package here has")
    return gone(f"{class_name} field", name, known.fields)


def _yaml_key(at: At) -> Answer:
    if at.symbol in at.file.index["classes"]:
        return _field(at, at.file, at.symbol, at.says["key"])
    return _string(at, "key", at.says["key"])


def _string(at: At, what: str, wanted: str) -> Answer:
    strings = at.file.index["strings"]
    for use in (use for use in strings if use["value"] == wanted and at.within(use["place"])):
        return holds(at.file, use["line"])
    for use in (use for use in strings if use["value"] == wanted):
        return other_symbol(at, use["place"], use["line"])
    return gone(what, wanted, (use["value"] for use in strings if at.within(use["place"])))


def _constant(at: At) -> Answer:
    name = at.says["name"]
    values = at.file.index["values"]
    place = next((p for p in (name, f"{at.symbol}.{name}", at.symbol) if p in values), None)
    if place is None:
        return gone("constant", name, values)
    found = at.symbols.value(at.file, values[place], place.rpartition(".")[0])
    line = at.file.index["symbols"][place][0]
    if not same_value(at.says["value"], found):
        return differs(name, at.says["value"], found, at.file, line)
    return holds(at.file, line)


def _parameter(at: At) -> Answer:
    if at.symbol not in at.file.index["parameters"]:
        return gone("function", at.symbol, at.file.index["parameters"])
    parameters = at.symbols.parameters(at.file, at.symbol)
    name = at.says["name"]
    if name not in parameters:
        return gone("parameter", name, parameters)
    return _same_field(at, parameters[name], name)


def _section(at: At) -> Answer:
    name = at.says["name"]
    for call in ("start_section", "end_section"):
        lines = at.file.lines_of(f"....{call}({name!r})", at.symbol)
        if lines:
            return holds(at.file, lines[0])
    return gone("section", name, (use["value"] for use in at.file.index["strings"] if at.within(use["place"])))


# ---- texts ----


def _log_line(at: At) -> Answer:
    says = at.says
    found, answer = find(at, says["text"])
    if answer is not None:
        return answer
    message = found[0]
    levels = {m["level"] for m in found} - {""}
    wanted = {"none": "print", "stdout": "print", "exception": "raised", "warn": "warning"}.get(
        str(says["level"]).lower(), str(says["level"]).lower()
    )
    if levels and wanted not in levels:
        return differs("level", says["level"], ", ".join(sorted(levels)), at.file, message["line"])
    message = next((m for m in found if m["level"] == wanted), message)
    logger = _logger(at, message["call"])
    if logger is not None and says["logger"] and says["logger"] != logger:
        return differs("logger", says["logger"], logger, at.file, message["line"])
    only = {"print_rank_0": "0", "print_rank_last": "last"}.get(message["call"].rsplit(".", 1)[-1])
    if only and not str(says["rank"]).startswith(only):
        return differs("rank", says["rank"], only, at.file, message["line"])
    return holds(at.file, message["line"])


def _logger(at: At, call: str) -> str | None:
    """The name of the logger that a call uses, where the module names it."""
    receiver = call.rpartition(".")[0]
    if receiver == "logging":
        return "root"
    created = re.fullmatch(r"(?:logging\.)?getLogger\((.*)\)", at.file.index["values"].get(receiver, ""))
    if not created:
        return None
    if created.group(1) == "__name__":
        return at.file.module
    value = at.symbols.value(at.file, created.group(1) or "'root'")
    return value.value if value.known else None


def _error(at: At) -> Answer:
    found, answer = find(at, at.says["text"])
    if answer is not None:
        return answer
    wanted = at.says["raises"]
    raised = [m for m in found if m["level"] == "raised" or m["call"].endswith("parser.error")]
    if not raised:
        return differs("raised", wanted, found[0]["call"] or "not raised here", at.file, found[0]["line"])
    for message in raised:
        name = "SystemExit" if message["call"].endswith("parser.error") else message["call"]
        if wanted in (name, message["call"]):
            return holds(at.file, message["line"])
    return differs("raises", wanted, ", ".join(sorted({m["call"] for m in raised})), at.file, raised[0]["line"])


def _file(at: At) -> Answer:
    last = at.says["path"].rstrip("/").rsplit("/", 1)[-1]
    claimed = core(holes_of_braces(last))
    if not claimed:
        return unknown("the path's last part is all variable")
    messages = at.file.index["messages"]
    named = [m for m in messages if any(_names_file(r, claimed) for text in m["texts"] for r in readings(text))]
    built = [m for m in messages if m["names"] and any(_names_file(text, claimed) for text in filled(at, m))]
    for message in (*named, *built):
        if at.within(message["place"]):
            return holds(at.file, message["line"])
    for message in (*named, *built):
        return other_symbol(at, message["place"], message["line"])
    return gone("file name", last, (text for m in messages if at.within(m["place"]) for text in m["texts"]))


def _names_file(text: str, claimed: str) -> bool:
    """True if a text ends in the file name, or has it as one part of a path."""
    return claimed in map(core, text.split("/")) or (len(claimed.replace(HOLE, "")) > 5 and claimed in text)


# ---- the process ----


def _env_var(at: At) -> Answer:
    name = at.says["name"]
    wanted = "write" if "set_by" in at.says and "read_by" not in at.says else "read"
    uses = at.file.index["environment"]
    everywhere = [use for use in uses if at.symbols.value(at.file, use["value"], use["place"]).value == name]
    named = [use for use in everywhere if at.within(use["place"])]
    for use in named:
        if use["access"] == wanted:
            return holds(at.file, use["line"])
    for use in named:
        return differs("use", wanted, use["access"], at.file, use["line"])
    for use in everywhere:
        return other_symbol(at, use["place"], use["line"])
    if name.startswith("PET_"):
        for option in _parser(at):
            if option.env and f"PET_{option.dest.upper()}" == name:
                return holds(option.file, option.line)
    answer = _string(at, "environment variable", name)
    if answer.verdict == GONE:
        near = [str(at.symbols.value(at.file, use["value"], use["place"]).value) for use in uses]
        return gone("environment variable", name, near)
    return answer


def _exit_code(at: At) -> Answer:
    code = at.says["code"]
    if at.symbol in at.file.index["values"]:
        found = at.symbols.value(at.file, at.file.index["values"][at.symbol])
        line = at.file.index["symbols"][at.symbol][0]
        if same_value(code, found):
            return holds(at.file, line)
        return differs(at.symbol, code, found, at.file, line)
    exits = [use for use in at.file.index["exits"] if at.within(use["place"])]
    kept = {f"={use['value']}" for use in exits if use["value"].isidentifier()}
    exits = [use for use in exits if not use["access"].startswith("=") or use["access"] in kept]
    for use in exits:
        if at.symbols.value(at.file, use["value"], use["place"]).value == code:
            return holds(at.file, use["line"])
    return gone("exit code", str(code), (use["value"] for use in exits))


def _signal(at: At) -> Answer:
    name = at.says["signal"]
    name = name if name.startswith("SIG") else f"SIG{name}"
    uses = [use for use in at.file.index["signals"] if at.within(use["place"])]
    for use in uses:
        if use["value"] == name:
            return holds(at.file, use["line"])
    return gone("signal", name, (use["value"] for use in uses))


# ---- the package as a whole ----


def _path(fact: Fact, package: Package) -> Answer:
    path, wanted = fact.says["path"], fact.says.get("exists", True)
    folder = path.endswith("/")
    there = any(name.startswith(path) for name in package.files) if folder else package.has(path)
    if not there and package.leaves_out(path):
        return unknown(f"{path} is not part of the built {package.name}; use --checkout")
    if there == wanted:
        return Answer(HOLDS, path)
    if there:
        return Answer(DIFFERS, path, f"{path} is not there", f"{path} is there")
    return gone("path", path, package.files)


def _entry_point(fact: Fact, package: Package) -> Answer:
    try:
        scripts = package.entry_points()
    except FileNotFoundError:
        return unknown(f"{package.name} has no built metadata here")
    name, wanted = fact.says["name"], fact.says.get("target")
    if name not in scripts:
        return gone("entry point", name, scripts)
    if wanted is not None and scripts[name] != wanted:
        return Answer(DIFFERS, "entry_points.txt", f"target {wanted}", f"target {scripts[name]}")
    return Answer(HOLDS, "entry_points.txt")


def _requirement(fact: Fact, package: Package) -> Answer:
    needs, wanted = str(fact.says["needs"]), fact.says.get("spec")
    if wanted is None:
        return NO_PROOF
    headers = package.metadata()
    if not headers:
        return unknown(f"{package.name} has no built metadata here")
    try:
        claimed = SpecifierSet(wanted)
    except InvalidSpecifier:
        return unknown(f"{wanted!r} is no version specifier")
    if needs.lower() == "python":
        return _same_specifier(claimed, headers.get("Requires-Python", [""])[0], "Requires-Python")
    if needs.lower() == "glibc":
        tags = re.findall(r"manylinux_(\d+)_(\d+)", " ".join(headers.get("Tag", ())))
        newest = ".".join(min(tags, key=lambda tag: (int(tag[0]), int(tag[1])))) if tags else ""
        return _same_specifier(claimed, f">={newest}" if newest else "", "glibc of the wheel's tag")
    extra = fact.says.get("extra")
    for line in headers.get("Requires-Dist", ()):
        requirement = Requirement(line)
        if requirement.name.lower().replace("_", "-") != needs.lower().replace("_", "-"):
            continue
        marker = str(requirement.marker or "")
        if (f'extra == "{extra}"' in marker) if extra else "extra ==" not in marker:
            return _same_specifier(claimed, str(requirement.specifier), f"Requires-Dist {needs}")
    return gone("requirement", needs, (re.split(r"[^\w.-]", line)[0] for line in headers.get("Requires-Dist", ())))


def _same_specifier(claimed: SpecifierSet, found: str, what: str) -> Answer:
    if SpecifierSet(found) == claimed:
        return Answer(HOLDS, what)
    return Answer(DIFFERS, what, f"{what} {claimed or 'any'}", f"{what} {found or 'any'}")


#: kind -> verifier at the fact's source.
AT_SOURCE: dict[str, Callable[[At], Answer]] = {
    "option": _option,
    "removed_option": _removed_option,
    "config_field": _config_field,
    "yaml_key": _yaml_key,
    "constant": _constant,
    "parameter": _parameter,
    "section": _section,
    "log_line": _log_line,
    "error": _error,
    "validation": _error,
    "exit_code": _exit_code,
    "env_var": _env_var,
    "file": _file,
    "signal": _signal,
}
#: kind -> verifier of the package as a whole, which needs no file.
OF_PACKAGE: dict[str, Callable[[Fact, Package], Answer]] = {
    "path": _path,
    "entry_point": _entry_point,
    "requirement": _requirement,
}
