# SPDX-License-Identifier: Apache-2.0
"""What a code pattern matches, and what it does not."""

import ast

import pytest

from mbridge_resiliency.upstream import patterns

CODE = """
import os as system
def f(a, rank=0):
    if a is None or rank:
        raise ValueError("no")
    else:
        a = g(a, "x", key=1, other=[1, 2])
    timeout: float = 5.0
    client.open("setup").start_section("step")
    for item in a:
        print(item)
        print("end")
    return {"LOCAL_RANK": str(rank)}
"""


@pytest.mark.parametrize(
    "pattern,lines",
    [
        ('g(a, "x", key=1, other=[1, 2])', [7]),
        ("g(a, 'x', other=[1,2], key=1)", [7]),
        ("g(...)", [7]),
        ("g(..., key=1)", [7]),
        ("g(a, ...)", [7]),
        ("g(a, 'x', key=1)", []),
        ("g(..., key=2)", []),
        ("g(..., third=1)", []),
        ("g('x', ...)", []),
        ("....start_section('step')", [9]),
        ("....start_section(...)", [9]),
        ("client.start_section(...)", []),
        ("_ = g(...)", [7]),
        ("b = g(...)", []),
        ("timeout = 5.0", [8]),
        ("timeout = 6.0", []),
        ("timeout: float = 5.0", [8]),
        ("if ...:\n    raise ValueError(...)", [4]),
        ("if a is None or rank:\n    ...", [4]),
        ("if a is None:\n    ...", []),
        ("a is None or rank", [4]),
        ("b or rank", []),
        ("raise ValueError('yes')", []),
        ("print(item)\nprint('end')", [11]),
        ("print(item)\n...\nprint('end')", [11]),
        ("print('end')\nprint(item)", []),
        ("for _ in a:\n    ...\n    print('end')", [10]),
        ("rank", [3, 4, 13]),
        ("LOCAL_RANK", [13]),
        ("system", [2]),
        ("start_section", [9]),
        ("section", []),
        ("a is None", [4]),
        ("def f(a, rank=0): ...", [3]),
        ("1", [7, 7]),
        ("True", []),
        ("[1, ...]", [7]),
    ],
)
def test_find(pattern, lines):
    assert patterns.find(ast.parse(CODE), pattern) == sorted(set(lines))


def test_a_pattern_that_is_no_python_is_an_error():
    with pytest.raises(SyntaxError):
        patterns.find(ast.parse(CODE), "if (")


def test_the_statement_that_is_searched_can_itself_be_the_match():
    statement = ast.parse("LIMIT: int = 1").body[0]
    assert patterns.find(statement, "LIMIT = 1") == [1]


def test_part_of_a_chain_of_conditions():
    tree = ast.parse("if a and b and c:\n    pass")
    assert patterns.find(tree, "b and c") == [1]
    assert patterns.find(tree, "a and c") == []
    assert patterns.find(tree, "a or b") == []
