# SPDX-License-Identifier: Apache-2.0
"""The options of a command line, from the calls that build its parser.

The function that builds the parser is followed through the helpers it hands the parser to, with the arguments they
are given: a default that a caller passes down is the default.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import Iterator, Mapping, Sequence

from .symbols import NONE, File, Symbols, Value
from .syntax import dotted

MOST_DEPTH = 8


@dataclass(frozen=True)
class Option:
    """One option or positional argument.

    Attributes:
        names: every spelling.
        takes: flag, one, many or rest.
        default: what the parser fills in.
        type: the conversion as source text, or None.
        choices: the values it accepts, or None.
        env: True if an environment variable PET_<DEST> stands in for it.
    """

    names: tuple[str, ...]
    takes: str
    default: Value
    type: str | None
    choices: Value | None
    action: str | None
    dest: str
    env: bool
    file: File
    line: int


@dataclass(frozen=True)
class _Bound:
    """An expression and what the names in it were bound to where it was written."""

    node: ast.expr
    scope: _Scope


@dataclass(frozen=True)
class _Scope:
    file: File
    names: Mapping[str, _Bound]
    lists: Mapping[str, Sequence[_Bound]]
    tables: Mapping[str, Mapping[str, _Bound]]


def options(symbols: Symbols, file: File, function: str, depth: int = 0, scope: _Scope | None = None) -> list[Option]:
    """Every option of the parser that a function builds. Raises KeyError where there is no such function."""
    node = file.node(function)
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        raise KeyError(function)
    walker = _Walker(symbols, scope or _Scope(file, {}, {}, {}), depth)
    walker.body(node.body)
    return walker.found


class _Walker:
    def __init__(self, symbols: Symbols, scope: _Scope, depth: int) -> None:
        self._symbols, self._depth = symbols, depth
        self._names, self._lists = dict(scope.names), dict(scope.lists)
        self._tables = {name: dict(table) for name, table in scope.tables.items()}
        self._file = scope.file
        self.found: list[Option] = []

    @property
    def _scope(self) -> _Scope:
        return _Scope(self._file, dict(self._names), self._lists, {k: dict(v) for k, v in self._tables.items()})

    def body(self, statements: Sequence[ast.stmt]) -> None:
        """Read statements in order; of an `if` that can be decided, only the branch that is taken."""
        for statement in statements:
            if isinstance(statement, ast.If):
                taken = self._decide(statement.test)
                if taken is not False:
                    self.body(statement.body)
                if taken is not True:
                    self.body(statement.orelse)
            elif isinstance(statement, (ast.For, ast.While, ast.With, ast.Try)):
                self.body(statement.body)
            elif isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
                if any(isinstance(n, ast.Attribute) and n.attr == "add_argument" for n in ast.walk(statement)):
                    self.body(statement.body)
            else:
                self._assign(statement)
                for node in ast.walk(statement):
                    if isinstance(node, ast.Call):
                        self._call(node)

    def _assign(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target, value = statement.targets[0], statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            target, value = statement.target, statement.value
        else:
            return
        if isinstance(target, ast.Name) and isinstance(value, ast.Dict):
            pairs = zip(value.keys, value.values)
            self._tables[target.id] = {k.value: self._bind(v) for k, v in pairs if isinstance(k, ast.Constant)}
        elif isinstance(target, ast.Name):
            self._names[target.id] = self._bind(value)
        elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            if isinstance(target.slice, ast.Constant):
                self._tables.setdefault(target.value.id, {})[target.slice.value] = self._bind(value)

    def _bind(self, node: ast.expr) -> _Bound:
        if isinstance(node, ast.Name) and node.id in self._names:
            return self._names[node.id]
        return _Bound(node, self._scope)

    def _decide(self, test: ast.expr) -> bool | None:
        """The truth of a test over bound arguments; None where it cannot be told."""
        negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
        if negated:
            inner = self._decide(test.operand)  # type: ignore[attr-defined]
            return None if inner is None else not inner
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.Is, ast.IsNot)):
            bound = self._bind(test.left)
            if isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value is None:
                if isinstance(bound.node, ast.Name) and bound.node.id in bound.scope.names:
                    return None
                is_none = isinstance(bound.node, ast.Constant) and bound.node.value is None
                return is_none == isinstance(test.ops[0], ast.Is)
        if isinstance(test, ast.Name):
            bound = self._bind(test)
            return bool(bound.node.value) if isinstance(bound.node, ast.Constant) else None
        return None

    def _arguments(self, node: ast.Call) -> tuple[list[_Bound], dict[str, _Bound]]:
        given: list[_Bound] = []
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                given += self._starred(argument.value)
            else:
                given.append(self._bind(argument))
        named: dict[str, _Bound] = {}
        for keyword in node.keywords:
            if keyword.arg is not None:
                named[keyword.arg] = self._bind(keyword.value)
            elif isinstance(keyword.value, ast.Name):
                named.update(self._tables.get(keyword.value.id, {}))
        return given, named

    def _starred(self, node: ast.expr) -> list[_Bound]:
        if isinstance(node, ast.Name) and node.id in self._lists:
            return list(self._lists[node.id])
        bound = self._bind(node)
        if isinstance(bound.node, (ast.Tuple, ast.List)):
            return [_Bound(item, bound.scope) for item in bound.node.elts]
        return []

    def _call(self, node: ast.Call) -> None:
        last = dotted(node.func).rsplit(".", 1)[-1]
        if last == "add_argument":
            option = self._option(*self._arguments(node), node)
            if option is not None:
                self.found.append(option)
            return
        hands_over = any(
            isinstance(argument, ast.Name) and ("parser" in argument.id or "group" in argument.id)
            for argument in (*node.args, *(keyword.value for keyword in node.keywords))
        )
        if not hands_over or self._depth >= MOST_DEPTH:
            return
        where = self._symbols.resolve(self._file, dotted(node.func))
        if where is None or where[1] not in where[0].index["parameters"]:
            return
        inner = self._enter(*where, *self._arguments(node))
        found = options(self._symbols, *where, self._depth + 1, inner)
        if last.endswith("add_argument"):  # a thin helper: the option stands where it is called
            found = [replace(option, file=self._file, line=node.lineno) for option in found]
        self.found += found

    def _enter(self, file: File, function: str, given: list[_Bound], named: dict[str, _Bound]) -> _Scope:
        """The names a helper starts with."""
        definition = file.node(function)
        assert isinstance(definition, (ast.FunctionDef, ast.AsyncFunctionDef))
        outside = _Scope(file, {}, {}, {})
        arguments = definition.args
        plain = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
        names: dict[str, _Bound] = {}
        for name, default in zip(reversed(plain), reversed(arguments.defaults)):
            names[name] = _Bound(default, outside)
        for argument, default_ in zip(arguments.kwonlyargs, arguments.kw_defaults):
            if default_ is not None:
                names[argument.arg] = _Bound(default_, outside)
        names.update(zip(plain, given))
        known = {*plain, *(argument.arg for argument in arguments.kwonlyargs)}
        names.update({name: bound for name, bound in named.items() if name in known})
        lists = {arguments.vararg.arg: given[len(plain) :]} if arguments.vararg else {}
        rest = {name: bound for name, bound in named.items() if name not in known}
        tables = {arguments.kwarg.arg: rest} if arguments.kwarg else {}
        return _Scope(file, names, lists, tables)

    def _value(self, bound: _Bound | None) -> Value:
        if bound is None:
            return NONE
        node = bound.node
        while isinstance(node, ast.Name) and node.id in bound.scope.names and bound.scope.names[node.id] is not bound:
            bound = bound.scope.names[node.id]
            node = bound.node
        return self._symbols.value(bound.scope.file, ast.unparse(node))

    def _option(self, given: list[_Bound], named: dict[str, _Bound], node: ast.Call) -> Option | None:
        values = [self._value(bound) for bound in given]
        if not values and "dest" in named:  # a positional argument
            values = [self._value(named["dest"])]
        names = tuple(value.value for value in values if value.known and isinstance(value.value, str))
        if not names or len(names) != len(values):
            return None
        action = self._value(named["action"]) if "action" in named else None
        action_name = None if action is None else str(action.value if action.known else action.text)
        long = next((name for name in names if name.startswith("--")), names[0])
        dest = self._value(named["dest"]).value if "dest" in named else long.lstrip("-").replace("-", "_")
        default = self._value(named.get("default"))
        implied = {"store_true": False, "store_false": True, "check_env": False}.get((action_name or "").split(".")[-1])
        if "default" not in named and implied is not None:
            default = Value(str(implied), True, implied)
        kind = self._value(named["type"]) if "type" in named else None
        return Option(
            names=names,
            takes=_takes(action_name, self._value(named.get("nargs")), long),
            default=default,
            type=kind and kind.text,
            choices=self._value(named["choices"]) if "choices" in named else None,
            action=action_name,
            dest=str(dest),
            env=(action_name or "").rsplit(".", 1)[-1] in ("env", "check_env"),
            file=self._file,
            line=node.lineno,
        )


def _takes(action: str | None, count: Value, name: str) -> str:
    last = (action or "").rsplit(".", 1)[-1]
    if last in (
        "store_true",
        "store_false",
        "store_const",
        "count",
        "help",
        "version",
        "check_env",
        "BooleanOptionalAction",
    ):
        return "flag"
    wanted = str(count.value if count.known else count.text).rsplit(".", 1)[-1]
    if wanted in ("REMAINDER", "...", "PARSER", "A..."):
        return "rest"
    if wanted in ("*", "+") or (wanted.isdigit() and int(wanted) > 1):
        return "many"
    return "one"


def spelling_of(found: Sequence[Option], name: str) -> Iterator[Option]:
    """The options that accept a spelling."""
    return (option for option in found if name in option.names)
