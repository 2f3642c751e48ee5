# SPDX-License-Identifier: Apache-2.0
"""What one Python file says, from its syntax tree, as plain data that can be kept in a cache.

Places are qualified names inside the file: `Class.method`, `function.inner`, `CONSTANT`, and "" for the module.
"""

from __future__ import annotations

import ast
import itertools
import re
from typing import Iterator, TypedDict

#: Stands for a variable part in a message.
HOLE = "\0"
#: Alternatives of one message ("a" if x else "b"); more are cut off.
MOST_ALTERNATIVES = 16

#: Logging methods -> the level they log at.
LEVELS = {
    "debug": "debug", "info": "info", "warning": "warning", "warn": "warning", "error": "error",
    "exception": "error", "critical": "critical", "fatal": "critical",
}  # fmt: skip


class FieldData(TypedDict):
    """A class-level name: type and value as source text, None where absent."""

    type: str | None
    value: str | None
    line: int


class Message(TypedDict):
    """A string that the file can produce.

    texts are its alternatives, with HOLE for each variable part; names are the expressions in the holes, where each
    hole is one. call is the function it is handed to ("self.logger.warning", "print_rank_0"), or the exception class
    where it is raised; level is the logging level, "print", "raised" or "".
    """

    texts: list[str]
    names: list[str]
    line: int
    place: str
    call: str
    level: str


class Use(TypedDict):
    """One use of an environment variable, a signal or a plain string, or one exit.

    access is "read" or "write" for environment variables; for exits the function, "return", or "=name" where a number
    is kept in a variable.
    """

    value: str
    access: str
    line: int
    place: str


class Index(TypedDict):
    """Everything that is read from one file.

    imports: local name -> "module:name" ("module:" for a module); a relative module keeps its leading dots.
    symbols: place -> [line, last line]. classes: place -> base expressions. fields: class place -> its own fields.
    values: place of a module- or class-level name -> expression. parameters: function place -> its parameters.
    """

    imports: dict[str, str]
    stars: list[str]
    symbols: dict[str, list[int]]
    classes: dict[str, list[str]]
    fields: dict[str, dict[str, FieldData]]
    values: dict[str, str]
    parameters: dict[str, dict[str, FieldData]]
    messages: list[Message]
    environment: list[Use]
    exits: list[Use]
    signals: list[Use]
    strings: list[Use]


def read(tree: ast.Module) -> Index:
    """Everything that one file's syntax tree says."""
    visitor = _Visitor()
    visitor.visit(tree)
    return visitor.result()


def holes_of_percent(text: str) -> str:
    """A %-format string with HOLE for each conversion."""
    text = re.sub(r"%(?:\([^)]*\))?[#0\- +]*(?:\*|\d+)?(?:\.(?:\*|\d+))?[hlL]?[diouxXeEfFgGcrsa]", HOLE, text)
    return text.replace("%%", "%")


def holes_of_braces(text: str) -> str:
    """A str.format string, or a fact's text, with HOLE for each field; `{{` and `}}` are braces."""
    text = text.replace("{{", "\1").replace("}}", "\2")
    return re.sub(r"\{[^{}]*\}", HOLE, text).replace("\1", "{").replace("\2", "}")


def dotted(node: ast.expr) -> str:
    """`a.b.c` as text; "" for anything else at its root, whose attributes are kept (`f(x).b` -> ".b")."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    parts.append(node.id if isinstance(node, ast.Name) else "")
    return ".".join(reversed(parts))


class _Visitor(ast.NodeVisitor):
    def __init__(self) -> None:
        self._scope: list[str] = []
        self._kinds: list[str] = []
        self._call = ("", "")
        self._assigned: dict[tuple[str, str], list[Message]] = {}
        self._grown: dict[tuple[str, str], list[Message]] = {}
        self._handed: list[tuple[tuple[str, str], tuple[str, str]]] = []
        self._index: Index = {
            "imports": {}, "stars": [], "symbols": {}, "classes": {}, "fields": {}, "values": {}, "parameters": {},
            "messages": [], "environment": [], "exits": [], "signals": [], "strings": [],
        }  # fmt: skip

    def result(self) -> Index:
        """The index, with messages grown in steps, and the calls that variables and helpers hand them to."""
        for key, pieces in self._grown.items():
            whole = re.sub(f"{HOLE}+", HOLE, "".join(piece["texts"][0] for piece in pieces))
            message: Message = {**pieces[0], "texts": [whole], "names": []}
            self._index["messages"].append(message)
            self._assigned[key].append(message)
        for key, (call, level) in self._handed:
            for message in self._assigned.get(key, ()):
                if not message["level"]:
                    message["call"], message["level"] = call, level
                elif message["level"] != level:
                    self._index["messages"].append({**message, "call": call, "level": level})
        helpers = {
            place.rsplit(".", 1)[-1]: call
            for (place, name), call in self._handed
            if name in self._index["parameters"].get(place, ())
        }
        for message in self._index["messages"]:
            if not message["level"] and (helper := message["call"].rsplit(".", 1)[-1]) in helpers:
                message["call"], message["level"] = helpers[helper]
        return self._index

    @property
    def _place(self) -> str:
        return ".".join(self._scope)

    def _within(self, name: str, kind: str, node: ast.AST) -> None:
        self._scope.append(name)
        self._kinds.append(kind)
        self._index["symbols"].setdefault(self._place, [node.lineno, node.end_lineno or node.lineno])  # type: ignore[attr-defined]

    def _leave(self) -> None:
        self._scope.pop()
        self._kinds.pop()

    # ---- names ----
    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.asname:
                self._index["imports"].setdefault(alias.asname, f"{alias.name}:")
            else:
                root = alias.name.split(".")[0]
                self._index["imports"].setdefault(root, f"{root}:")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = "." * node.level + (node.module or "")
        for alias in node.names:
            if alias.name == "*":
                self._index["stars"].append(module)
            else:
                self._index["imports"].setdefault(alias.asname or alias.name, f"{module}:{alias.name}")

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._within(node.name, "class", node)
        self._index["classes"][self._place] = [ast.unparse(base) for base in node.bases]
        self._index["fields"][self._place] = {}
        for statement in node.body:
            self.visit(statement)
        self._leave()

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._within(node.name, "function", node)
        arguments = node.args
        plain = [*arguments.posonlyargs, *arguments.args]
        defaults = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
        pairs = [*zip(plain, defaults), *zip(arguments.kwonlyargs, arguments.kw_defaults)]
        self._index["parameters"][self._place] = {
            argument.arg: {
                "type": argument.annotation and ast.unparse(argument.annotation),
                "value": default and ast.unparse(default),
                "line": argument.lineno,
            }
            for argument, default in pairs
        }
        for decorator in node.decorator_list:
            self.visit(decorator)
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if default is not None:
                self.visit(default)
        for statement in node.body:
            self.visit(statement)
        self._leave()

    visit_FunctionDef = _function
    visit_AsyncFunctionDef = _function

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring is printed nowhere
            self.visit(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._assign([node.target], node.value, node, ast.unparse(node.annotation))

    def visit_Assign(self, node: ast.Assign) -> None:
        self._assign(node.targets, node.value, node, None)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._assign([node.target], node.value, node, None)

    def _assign(self, targets: list[ast.expr], value: ast.expr | None, node: ast.stmt, annotation: str | None) -> None:
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        declared = bool(names) and "function" not in self._kinds
        for name in names if declared and not isinstance(node, ast.AugAssign) else ():
            place = ".".join([*self._scope, name])
            self._index["symbols"].setdefault(place, [node.lineno, node.end_lineno or node.lineno])
            if value is not None:
                self._index["values"][place] = ast.unparse(value)
            if self._kinds and self._kinds[-1] == "class":
                known = self._index["fields"][self._place].get(name)
                self._index["fields"][self._place][name] = {
                    "type": annotation or (known["type"] if known else None),
                    "value": value and ast.unparse(value),
                    "line": node.lineno,
                }
        for target in targets:
            self._environment_write(target)
        if isinstance(value, ast.Constant) and type(value.value) is int:
            for name in names:  # exit_code = 1 ... sys.exit(exit_code)
                self._exits(str(value.value), f"={name}", node)
        if value is None:
            return
        before = len(self._index["messages"])
        if declared:
            self._within(names[0], "value", node)
        self.visit(value)
        if declared:
            self._leave()
        variables = [dotted(target) for target in targets if isinstance(target, (ast.Name, ast.Attribute))]
        for variable in variables:
            known = self._assigned.setdefault((self._place, variable), [])
            made = self._index["messages"][before:]
            if made and isinstance(node, ast.AugAssign):  # text += "more": one message, put together in steps
                self._grown.setdefault((self._place, variable), known[-1:]).append(made[0])
            known += made

    # ---- messages ----
    def _message(self, node: ast.expr, percent: bool = False) -> bool:
        texts = list(itertools.islice(_templates(node), MOST_ALTERNATIVES))
        texts = [holes_of_percent(text) for text in texts] if percent else texts
        texts = [merged for text in texts if (merged := re.sub(f"{HOLE}+", HOLE, text)).strip(HOLE + " \n")]
        if not texts:
            return False
        call, level = self._call
        names = [dotted(part.value) for part in getattr(node, "values", ()) if isinstance(part, ast.FormattedValue)]
        message: Message = {
            "texts": texts,
            "names": names if len(texts) == 1 and texts[0].count(HOLE) == len(names) else [],
            "line": node.lineno,
            "place": self._place,
            "call": call,
            "level": level,
        }
        self._index["messages"].append(message)
        for text in texts:
            if HOLE not in text and len(text) < 200:
                self._index["strings"].append({"value": text, "access": "", "line": node.lineno, "place": self._place})
                if re.fullmatch(r"SIG[A-Z0-9]+", text):
                    self._signal(text, node)
        return True

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self._message(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        self._message(node)
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self._apart(part.value)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if isinstance(node.op, (ast.Add, ast.Mod)) and self._message(node):
            for part in _parts_that_are_no_text(node):
                self._apart(part)
        else:
            self.generic_visit(node)

    def _apart(self, node: ast.AST) -> None:
        """Visit what is not itself handed to the call being read."""
        outer, self._call = self._call, ("", "")
        self.visit(node)
        self._call = outer

    # ---- calls ----
    def visit_Call(self, node: ast.Call) -> None:
        function = dotted(node.func)
        last = function.rsplit(".", 1)[-1]
        if last == "format" and isinstance(node.func, ast.Attribute) and self._message(node):
            for part in (*node.args, *(keyword.value for keyword in node.keywords)):
                self._apart(part)
            return
        self._environment_read(function, node)
        self._exit(function, node)
        outer = self._call
        level = _level(last, node)
        self._call = (function, level)
        logs = level in LEVELS.values()
        self._apart(node.func)
        for argument in node.args:
            if logs and len(node.args) > 1 and isinstance(argument, (ast.Constant, ast.JoinedStr, ast.BinOp)):
                if self._message(argument, percent=isinstance(argument, ast.Constant)):
                    continue
            if level and isinstance(argument, (ast.Name, ast.Attribute)):
                self._handed.append(((self._place, dotted(argument)), self._call))
            self.visit(argument)
        for keyword in node.keywords:
            if keyword.arg not in ("help", "description", "epilog"):  # argparse's texts are no messages
                self.visit(keyword.value)
        self._call = outer

    def visit_Raise(self, node: ast.Raise) -> None:
        raised = node.exc
        if isinstance(raised, ast.Call):
            name = dotted(raised.func).rsplit(".", 1)[-1]
            self._exit(dotted(raised.func), raised)
            outer, self._call = self._call, (name, "raised")
            for argument in (*raised.args, *(keyword.value for keyword in raised.keywords)):
                if isinstance(argument, (ast.Name, ast.Attribute)):
                    self._handed.append(((self._place, dotted(argument)), self._call))
                self.visit(argument)
            self._call = outer
        elif raised is not None:
            self.visit(raised)
        if node.cause is not None:
            self.visit(node.cause)

    def visit_Assert(self, node: ast.Assert) -> None:
        self.visit(node.test)
        if node.msg is not None:
            outer, self._call = self._call, ("AssertionError", "raised")
            self.visit(node.msg)
            self._call = outer

    def _exit(self, function: str, node: ast.Call) -> None:
        if function in ("sys.exit", "exit", "quit", "os._exit", "_exit", "SystemExit"):
            self._exits(ast.unparse(node.args[0]) if node.args else "0", function, node)

    def _exits(self, value: str, access: str, node: ast.expr | ast.stmt) -> None:
        self._index["exits"].append({"value": value, "access": access, "line": node.lineno, "place": self._place})

    def visit_Return(self, node: ast.Return) -> None:
        if isinstance(node.value, ast.Constant) and type(node.value.value) is int:
            self._exits(str(node.value.value), "return", node)
        self.generic_visit(node)

    # ---- environment and signals ----
    def _environment(self, value: ast.expr, access: str, node: ast.AST) -> None:
        use: Use = {"value": ast.unparse(value), "access": access, "line": node.lineno, "place": self._place}  # type: ignore[attr-defined]
        self._index["environment"].append(use)

    def _environment_read(self, function: str, node: ast.Call) -> None:
        owner, _, method = function.rpartition(".")
        if not node.args:
            return
        if method == "getenv" or (
            method in ("get", "pop", "setdefault", "putenv", "unsetenv") and _is_environment(owner)
        ):
            access = {"setdefault": "write", "putenv": "write", "pop": "write", "unsetenv": "write"}.get(method, "read")
            self._environment(node.args[0], access, node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.ctx, ast.Load) and _is_environment(dotted(node.value)):
            self._environment(node.slice, "read", node)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for operator, right in zip(node.ops, node.comparators):
            if isinstance(operator, (ast.In, ast.NotIn)) and _is_environment(dotted(right)):
                self._environment(node.left, "read", node)
        self.generic_visit(node)

    def _environment_write(self, target: ast.expr) -> None:
        if isinstance(target, ast.Subscript) and re.search(r"env", dotted(target.value), re.I):
            self._environment(target.slice, "write", target)

    def visit_Dict(self, node: ast.Dict) -> None:
        for key in node.keys:
            if (
                isinstance(key, ast.Constant)
                and isinstance(key.value, str)
                and re.fullmatch(r"[A-Z][A-Z0-9_]+", key.value)
            ):
                self._environment(key, "write", key)
        self.generic_visit(node)

    def _signal(self, name: str, node: ast.AST) -> None:
        use: Use = {"value": name, "access": "", "line": node.lineno, "place": self._place}  # type: ignore[attr-defined]
        self._index["signals"].append(use)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if re.fullmatch(r"SIG[A-Z0-9]+", node.attr):
            self._signal(node.attr, node)
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if re.fullmatch(r"SIG[A-Z0-9]+", node.id):
            self._signal(node.id, node)


def _is_environment(name: str) -> bool:
    return name in ("os.environ", "environ", "env", "os.environb") or name.endswith((".environ", "_env", ".env"))


def _level(method: str, node: ast.Call) -> str:
    """The level a call logs at; "print" for functions that print; "" for others."""
    for argument in node.args[:2]:
        name = dotted(argument).rsplit(".", 1)
        if name[0].endswith("logging") and name[-1].lower() in LEVELS:
            return LEVELS[name[-1].lower()]
    if method in LEVELS and isinstance(node.func, ast.Attribute):
        return LEVELS[method]
    if method.startswith("print") or method in ("write", "echo"):
        return "print"
    return ""


def _templates(node: ast.expr) -> Iterator[str]:
    """The texts a string expression can have, with HOLE for variable parts; nothing where it is no text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield from ("".join(parts) for parts in itertools.product(*(_bounded(_piece(part)) for part in node.values)))
    elif isinstance(node, ast.IfExp):
        yield from _templates(node.body)
        yield from _templates(node.orelse)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _bounded(_templates(node.left)), _bounded(_templates(node.right))
        if left or right:
            yield from (a + b for a, b in itertools.product(left or [HOLE], right or [HOLE]))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        yield from map(holes_of_percent, _templates(node.left))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        inside = _templates(node.func.value)
        if node.func.attr == "format":
            yield from map(holes_of_braces, inside)
        elif node.func.attr in ("strip", "rstrip", "lstrip"):
            yield from inside


def _piece(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.FormattedValue):
        found = _bounded(_templates(node.value))
        yield from found if isinstance(node.value, (ast.IfExp, ast.Constant)) and found else [HOLE]
    else:
        yield from _templates(node)


def _bounded(texts: Iterator[str]) -> list[str]:
    return list(itertools.islice(texts, MOST_ALTERNATIVES))


def _parts_that_are_no_text(node: ast.expr) -> Iterator[ast.expr]:
    """The variable parts of a concatenation or %-format."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _parts_that_are_no_text(node.left)
        yield from _parts_that_are_no_text(node.right)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        yield from _parts_that_are_no_text(node.left)
        yield node.right
    elif isinstance(node, ast.JoinedStr):
        yield from (part.value for part in node.values if isinstance(part, ast.FormattedValue))
    elif not isinstance(node, ast.Constant):
        yield node
