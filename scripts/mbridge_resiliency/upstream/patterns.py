# SPDX-License-Identifier: Apache-2.0
"""Whether a piece of code stands in a file, compared as syntax.

A pattern is Python: an expression, a statement, or several statements in a row.
    ...            any expression; in a list of arguments or statements, any number of them
    _              any name or expression, also where `...` cannot stand (the target of an assignment)
    NAME alone     the identifier anywhere: a name, an attribute, a keyword, a definition, an import, a string
    f(..., k=1)    a call with k=1 among its arguments
    a and b        also inside a longer chain of `and` (so with `or`)
    x = 1          also an annotated assignment; `if c: ...` also one that has an else
"""

from __future__ import annotations

import ast
from typing import Iterator, Sequence


def find(tree: ast.AST, pattern: str) -> list[int]:
    """The lines on which the pattern stands. Raises SyntaxError for a pattern that is no Python."""
    body = ast.parse(pattern.strip()).body
    if len(body) == 1 and isinstance(body[0], ast.Expr):
        wanted = body[0].value
        if isinstance(wanted, ast.Name) and wanted.id != "_":
            return sorted({line for line in _identifier(tree, wanted.id)})
        return sorted({n.lineno for n in ast.walk(tree) if isinstance(n, ast.expr) and _same(wanted, n)})
    return sorted(set(_statements(tree, body)))


def _identifier(tree: ast.AST, name: str) -> Iterator[int]:
    line = 0
    for node in ast.walk(tree):
        line = getattr(node, "lineno", line)
        words = (getattr(node, key, None) for key in ("id", "attr", "arg", "name", "asname", "value", "rest"))
        if any(isinstance(word, str) and word == name for word in words):
            yield line


def _statements(tree: ast.AST, wanted: Sequence[ast.stmt]) -> Iterator[int]:
    bodies = [body for node in ast.walk(tree) for _, body in ast.iter_fields(node) if isinstance(body, list)]
    for body in ([tree], *bodies):
        if body and isinstance(body[0], ast.stmt):
            for start in range(len(body)):
                if any(_row(wanted, body[start:end]) for end in _ends(wanted, body, start)):
                    yield body[start].lineno


def _ends(wanted: Sequence[ast.stmt], body: Sequence[ast.stmt], start: int) -> Iterator[int]:
    if any(_is_any(statement) for statement in wanted):
        yield from range(start + 1, len(body) + 1)
    elif start + len(wanted) <= len(body):
        yield start + len(wanted)


def _is_any(node: object) -> bool:
    if isinstance(node, ast.Expr):
        node = node.value
    return isinstance(node, ast.Constant) and node.value is ...


def _row(wanted: Sequence[ast.AST], found: Sequence[ast.AST]) -> bool:
    """Two lists are the same; `...` in the first stands for any number."""
    if not wanted:
        return not found
    if _is_any(wanted[0]):
        return any(_row(wanted[1:], found[skip:]) for skip in range(len(found) + 1))
    return bool(found) and _same(wanted[0], found[0]) and _row(wanted[1:], found[1:])


def _same(wanted: object, found: object) -> bool:
    if isinstance(wanted, ast.expr) and isinstance(found, ast.expr):
        if _is_any(wanted) or (isinstance(wanted, ast.Name) and wanted.id == "_"):
            return True
    if isinstance(wanted, ast.Expr) and isinstance(found, ast.stmt) and _is_any(wanted):
        return True
    if isinstance(wanted, ast.Assign) and isinstance(found, ast.AnnAssign):
        return len(wanted.targets) == 1 and _same(wanted.targets[0], found.target) and _same(wanted.value, found.value)
    if isinstance(wanted, ast.BoolOp) and isinstance(found, ast.BoolOp) and type(wanted.op) is type(found.op):
        count = len(wanted.values)
        return any(_row(wanted.values, found.values[at : at + count]) for at in range(len(found.values) - count + 1))
    if isinstance(wanted, ast.AST):
        return type(wanted) is type(found) and all(
            _same_field(wanted, found, name) for name in wanted._fields if name not in ("ctx", "kind", "type_comment")
        )
    if isinstance(wanted, list):
        return isinstance(found, list) and _row(wanted, found)
    return wanted == found and type(wanted) is type(found)


def _same_field(wanted: ast.AST, found: ast.AST, name: str) -> bool:
    left, right = getattr(wanted, name, None), getattr(found, name, None)
    if name in ("orelse", "finalbody", "decorator_list", "returns", "annotation", "type_params") and not left:
        return True
    if name == "keywords" and isinstance(wanted, ast.Call):
        several = any(_is_any(argument) for argument in wanted.args)
        pairs = {keyword.arg: keyword.value for keyword in right}
        among = all(keyword.arg in pairs and _same(keyword.value, pairs[keyword.arg]) for keyword in left)
        return among and (several or len(left) == len(right))
    return _same(left, right)
