# SPDX-License-Identifier: Apache-2.0
"""Names across files and packages: where an import leads, what a class inherits, what an expression is worth."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import os
import re
import sys
import tempfile
import warnings
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Iterator

from ..cli import cache_dir
from . import patterns, syntax
from .sources import Package, Release

#: A claimed default that stands for "must be given".
REQUIRED = "<required>"


class NotReadable(Exception):
    """A file cannot be read as Python by the running interpreter. The message says why."""


@lru_cache(maxsize=1)
def _reading() -> str:
    """Changes with this tool's way of reading and with the interpreter's syntax tree."""
    sources = b"".join(Path(module.__file__).read_bytes() for module in (syntax, patterns))
    return f"{hashlib.blake2b(sources, digest_size=8).hexdigest()}-py{sys.version_info[0]}.{sys.version_info[1]}"


def _kept_at(key: str) -> Path:
    return cache_dir() / "upstream" / _reading() / f"{key}.json"


class File:
    """One Python file of a package, read lazily; what was read is kept on disk under the hash of its content."""

    def __init__(self, package: Package, path: str) -> None:
        self.package, self.path = package, path
        self._content = package.read(path)
        self._key = hashlib.blake2b(self._content, digest_size=20).hexdigest()
        self._kept = self._load()
        self._changed = False

    def __str__(self) -> str:
        return self.path

    @cached_property
    def text(self) -> str:
        return self._content.decode("utf-8", errors="replace")

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def tree(self) -> ast.Module:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # upstream's invalid escapes are not the user's concern
                return ast.parse(self._content)
        except (SyntaxError, ValueError) as error:
            version = f"{sys.version_info[0]}.{sys.version_info[1]}"
            raise NotReadable(f"Python {version} cannot parse {self.path} ({error}); use a newer one") from error

    @cached_property
    def index(self) -> syntax.Index:
        if "index" not in self._kept:
            visitor = syntax.read(self.tree)
            self._kept["index"], self._changed = visitor, True
        return self._kept["index"]

    def lines_of(self, pattern: str, symbol: str = "") -> list[int]:
        """The lines on which a code pattern stands, inside a symbol or anywhere. Raises SyntaxError."""
        known = self._kept.setdefault("patterns", {})
        key = f"{symbol}|{pattern}"
        if key not in known:
            known[key] = patterns.find(self.node(symbol) if symbol else self.tree, pattern)
            self._changed = True
        return known[key]

    def node(self, symbol: str) -> ast.AST:
        """The definition of a symbol. Raises KeyError."""
        line, _ = self.index["symbols"][symbol]
        name = symbol.rsplit(".", 1)[-1]
        for node in ast.walk(self.tree):
            if getattr(node, "lineno", 0) == line and isinstance(node, ast.stmt):
                if getattr(node, "name", name) == name:
                    return node
        raise KeyError(symbol)

    @property
    def module(self) -> str:
        """The dotted name it is imported by."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def _load(self) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError):
            return json.loads(_kept_at(self._key).read_bytes())
        return {}

    def keep(self) -> None:
        """Write what was read to the cache; a cache that cannot be written is no error."""
        if not self._changed:
            return
        with contextlib.suppress(OSError):
            target = _kept_at(self._key)
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=target.parent, prefix=".")
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                json.dump(self._kept, out, separators=(",", ":"))
            os.replace(name, target)
            self._changed = False


@dataclass(frozen=True)
class Value:
    """What an expression is worth.

    Attributes:
        text: the expression, with names kept.
        known: True if it was evaluated to `value`.
        value: a plain Python value.
    """

    text: str
    known: bool = False
    value: Any = None

    def __str__(self) -> str:
        return repr(self.value) if self.known else self.text


NONE = Value("None", True, None)
ABSENT = Value(REQUIRED)


@dataclass(frozen=True)
class Field:
    """A dataclass field or a parameter: its type as source text, its default, and where it stands."""

    name: str
    type: str | None
    default: Value
    file: File
    line: int
    owner: str


@dataclass(frozen=True)
class ClassFields:
    """All fields of a class; unread names bases that no package here has."""

    fields: dict[str, Field]
    unread: tuple[str, ...]


class Symbols:
    """Names of one release."""

    def __init__(self, release: Release) -> None:
        self.release = release
        self._files: dict[str, File | None] = {}
        self._fields: dict[tuple[str, str], ClassFields] = {}
        #: (file, function) -> the options of the parser it builds, once read (parsers.py).
        self.parsers: dict[tuple[str, str], list[Any]] = {}

    def file(self, path: str) -> File | None:
        """The file under its installed path, from whichever package has it."""
        if path not in self._files:
            holder = self.release.holder(path)
            self._files[path] = File(holder, path) if holder else None
        return self._files[path]

    def keep(self) -> None:
        """Write the cache."""
        for file in self._files.values():
            if file is not None:
                file.keep()

    def module(self, name: str) -> File | None:
        """The file of a dotted module name."""
        base = name.replace(".", "/")
        return self.file(f"{base}.py") or self.file(f"{base}/__init__.py")

    def resolve(self, file: File, name: str, seen: frozenset[tuple[str, str]] = frozenset()) -> tuple[File, str] | None:
        """Where a dotted name used in a file is defined: the file, and the place in it.

        Imports, re-exports and star imports are followed. None where it leads outside the packages read.
        """
        if (file.path, name) in seen:
            return None
        seen = seen | {(file.path, name)}
        if name in file.index["symbols"]:
            return file, name
        head, _, rest = name.partition(".")
        if head in file.index["symbols"]:
            return None
        target = file.index["imports"].get(head)
        if target is not None:
            module, attribute = target.split(":")
            module = self._absolute(file, module)
            wanted = ".".join(filter(None, (attribute, rest)))
            return self._in_module(module, wanted, seen)
        for module in file.index["stars"]:
            found = self._in_module(self._absolute(file, module), name, seen)
            if found:
                return found
        return None

    def _in_module(self, module: str, name: str, seen: frozenset[tuple[str, str]]) -> tuple[File, str] | None:
        parts = name.split(".")
        for depth in range(len(parts) - 1, -1, -1):  # megatron.core:timers.Timer: the longest module first
            file = self.module(".".join([module, *parts[:depth]]))
            if file is not None:
                found = self.resolve(file, ".".join(parts[depth:]), seen)
                if found:
                    return found
        return None

    @staticmethod
    def _absolute(file: File, module: str) -> str:
        level = len(module) - len(module.lstrip("."))
        if not level:
            return module
        package = file.path.split("/")[:-1]
        return ".".join([*package[: len(package) - level + 1], *filter(None, [module[level:]])])

    def class_fields(self, file: File, name: str) -> ClassFields:
        """Fields of a class with those it inherits; a subclass's own default wins. Raises KeyError."""
        key = (file.path, name)
        if key in self._fields:
            return self._fields[key]
        fields: dict[str, Field] = {}
        unread: list[str] = []
        for base in reversed(file.index["classes"][name]):
            base = base.split("[")[0]
            found = self.resolve(file, base)
            if found and found[1] in found[0].index["classes"]:
                inherited = self.class_fields(*found)
                fields.update(inherited.fields)
                unread += inherited.unread
            elif base not in ("object", "ABC", "Enum", "Generic", "Protocol"):
                unread.append(base)
        for field, data in file.index["fields"][name].items():
            if data["type"] is None and field not in fields:
                continue
            kind = data["type"] or fields[field].type
            default = self._default(file, data["value"])
            fields[field] = Field(field, kind, default, file, data["line"], name)
        self._fields[key] = ClassFields(fields, tuple(unread))
        return self._fields[key]

    def parameters(self, file: File, function: str) -> dict[str, Field]:
        """A function's parameters. Raises KeyError."""
        return {
            name: Field(name, data["type"], self._default(file, data["value"]), file, data["line"], function)
            for name, data in file.index["parameters"][function].items()
        }

    def _default(self, file: File, text: str | None) -> Value:
        if text is None:
            return ABSENT
        node = ast.parse(text, mode="eval").body
        if isinstance(node, ast.Call) and syntax.dotted(node.func).rsplit(".", 1)[-1] in ("field", "Field"):
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            if "default" in given:
                return self.value(file, ast.unparse(given["default"]))
            factory = given.get("default_factory")
            if factory is None:
                return ABSENT
            if isinstance(factory, ast.Lambda):
                return self.value(file, ast.unparse(factory.body))
            empty = {"list": [], "dict": {}, "set": set(), "tuple": ()}.get(syntax.dotted(factory))
            name = f"{ast.unparse(factory)}()"
            return Value(name, empty is not None, empty)
        return self.value(file, text)

    def value(self, file: File, text: str, place: str = "") -> Value:
        """Evaluate an expression as far as literals, arithmetic and constants go.

        place: the class or function that it stands in, whose own names are seen first.
        """
        try:
            return Value(text, True, self._evaluate(file, ast.parse(text, mode="eval").body, place, 0))
        except (_Unknown, SyntaxError, TypeError, ValueError, ArithmeticError, RecursionError):
            return Value(text)

    def _evaluate(self, file: File, node: ast.expr, place: str, depth: int) -> Any:
        if depth > 20:
            raise _Unknown
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            items = [self._evaluate(file, item, place, depth + 1) for item in node.elts]
            return {ast.Tuple: tuple, ast.List: list, ast.Set: set}[type(node)](items)
        if isinstance(node, ast.Dict) and None not in node.keys:
            keys = [self._evaluate(file, key, place, depth + 1) for key in node.keys if key is not None]
            return dict(zip(keys, (self._evaluate(file, value, place, depth + 1) for value in node.values)))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self._evaluate(file, node.operand, place, depth + 1)
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            left = self._evaluate(file, node.left, place, depth + 1)
            return _ARITHMETIC[type(node.op)](left, self._evaluate(file, node.right, place, depth + 1))
        if isinstance(node, ast.JoinedStr):
            return "".join(str(self._evaluate(file, part, place, depth + 1)) for part in node.values)
        if isinstance(node, ast.FormattedValue):
            return self._evaluate(file, node.value, place, depth + 1)
        if isinstance(node, ast.Call) and syntax.dotted(node.func) in ("float", "int", "list", "dict", "set", "tuple"):
            arguments = [self._evaluate(file, argument, place, depth + 1) for argument in node.args]
            return {"float": float, "int": int, "list": list, "dict": dict, "set": set, "tuple": tuple}[
                syntax.dotted(node.func)
            ](*arguments)
        if isinstance(node, (ast.Name, ast.Attribute)):
            return self._constant(file, syntax.dotted(node), place, depth)
        raise _Unknown

    def _constant(self, file: File, name: str, place: str, depth: int) -> Any:
        outer = place.split(".") if place else []
        for count in range(len(outer), -1, -1):
            inside = ".".join([*outer[:count], name])
            if inside in file.index["values"]:
                return self._evaluate_text(file, inside, depth)
        found = self.resolve(file, name)
        if found is None or found[1] not in found[0].index["values"]:
            raise _Unknown
        return self._evaluate_text(*found, depth)

    def _evaluate_text(self, file: File, place: str, depth: int) -> Any:
        node = ast.parse(file.index["values"][place], mode="eval").body
        return self._evaluate(file, node, place.rpartition(".")[0], depth + 1)


class _Unknown(Exception):
    pass


_ARITHMETIC = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b if isinstance(a, (int, float)) and isinstance(b, (int, float)) else _no(),
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.LShift: lambda a, b: a << b if b < 64 else _no(),
    ast.Pow: lambda a, b: a**b if abs(b) < 64 and abs(a) < 10**6 else _no(),
    ast.BitOr: lambda a, b: a | b,
}


def _no() -> Any:
    raise _Unknown


def same_value(claimed: Any, found: Value) -> bool:
    """True if a fact's value is the one in the source. Names may be given without what they are qualified by."""
    if claimed == REQUIRED or found is ABSENT:
        return claimed == REQUIRED and found is ABSENT
    if found.known and _equal(claimed, found.value):
        return True
    if not isinstance(claimed, str) or (found.known and isinstance(found.value, str)):
        return False
    left, right = _name(claimed), _name(found.text)
    return left == right or (re.fullmatch(r"[\w.]+", right) is not None and right.rsplit(".", 1)[-1] == left)


def _name(text: str) -> str:
    return re.sub(r"\s+", "", text).removesuffix("()").replace('"', "'")


def _equal(claimed: Any, value: Any) -> bool:
    if isinstance(value, set):
        value, claimed = sorted(value, key=str), sorted(claimed, key=str) if isinstance(claimed, list) else claimed
    elif isinstance(value, tuple):
        value = list(value)
    if isinstance(claimed, bool) or isinstance(value, bool):
        return claimed is value
    if isinstance(claimed, list) and isinstance(value, list):
        return len(claimed) == len(value) and all(map(_equal, claimed, value))
    if isinstance(claimed, dict) and isinstance(value, dict):
        return claimed.keys() == value.keys() and all(_equal(claimed[key], value[key]) for key in claimed)
    return claimed == value


def same_type(claimed: str, found: str | None) -> bool | None:
    """True if two annotations mean the same; None where the claim is prose."""
    wanted = _normal_type(re.sub(r"\bor (null|None)\b", "| None", claimed))
    if wanted is None:
        return None
    there = _normal_type(found) if found is not None else None
    if there is None or len(wanted) != len(there):
        return False
    # A claim may leave out what is in brackets: Callable for Callable[[int], str].
    return all(left == right or left == right.split("[")[0] for left, right in zip(wanted, there))


@lru_cache(maxsize=None)
def _normal_type(text: str) -> tuple[str, ...] | None:
    try:
        return tuple(sorted(set(_members(ast.parse(text.strip(), mode="eval").body))))
    except SyntaxError:
        return None


def _members(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from _members(ast.parse(node.value, mode="eval").body)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        yield from _members(node.left)
        yield from _members(node.right)
    elif isinstance(node, ast.Subscript):
        owner = syntax.dotted(node.value).rsplit(".", 1)[-1]
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if owner == "Optional":
            yield from _members(inner[0])
            yield "None"
        elif owner == "Union":
            for part in inner:
                yield from _members(part)
        elif owner == "Literal":
            yield "Literal[" + ", ".join(sorted(ast.unparse(part) for part in inner)) + "]"
        else:
            owner = {"Dict": "dict", "List": "list", "Tuple": "tuple", "Set": "set", "Type": "type"}.get(owner, owner)
            yield f"{owner}[{', '.join(' | '.join(sorted(_members(part))) for part in inner)}]"
    elif isinstance(node, (ast.Name, ast.Attribute)):
        name = syntax.dotted(node).rsplit(".", 1)[-1]
        yield {"Dict": "dict", "List": "list", "Tuple": "tuple", "Set": "set"}.get(name, name)
    elif isinstance(node, ast.List):
        yield "[" + ", ".join(" | ".join(sorted(_members(part))) for part in node.elts) + "]"
    else:
        yield ast.unparse(node)
