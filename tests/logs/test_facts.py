# SPDX-License-Identifier: Apache-2.0
"""Every log line and exit code that the checker relies on stands in the source of the installed package."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import mmap
import re
import sys
import sysconfig
from collections import defaultdict
from functools import lru_cache
from pathlib import Path

import pytest

from mbridge_resiliency import facts
from mbridge_resiliency.logs.signatures import SIGNATURES, by_literal

#: Top-level folder by which a package is found without being imported.
FOLDERS = {
    "nvidia-resiliency-ext": "nvidia_resiliency_ext",
    "megatron-bridge": "megatron",
    "megatron-core": "megatron",
    "torch": "torch",
}
LINES = [fact for fact in facts.of_kind("log_line") if fact.file == "log_lines.yaml"]
CODES = [fact for fact in facts.of_kind("exit_code") if fact.file == "exit_codes.yaml"]
#: What stands for a variable part, in facts and in format strings alike.
_VARIABLE = re.compile(r"\$?\{[^{}]*\}|%\([a-z_]+\)s|%[-+ #0-9.]*[sdfuri]")


def _source(fact: facts.Fact) -> Path:
    """The file of a fact, or a skip that names what is not here."""
    package, file = fact.source["package"], fact.source["file"]
    if package == "python":
        return Path(sysconfig.get_paths()["stdlib"], file)
    if package not in FOLDERS:
        pytest.skip(f"{package}: no Python package; its lines stand in tests/logs/cases")
    for entry in sys.path:
        found = Path(entry or ".", file)
        if found.exists():
            version = importlib.metadata.version(package)
            if not fact.holds_for(package, version):
                pytest.skip(f"{package} {version} is installed; {fact.id} holds for {fact.holds[package]}")
            return found
    if importlib.util.find_spec(FOLDERS[package]) is None:
        pytest.skip(f"{package} is not installed here")
    if file.endswith(".so"):
        pytest.skip(f"{package} is installed without {Path(file).name} (a build for CPUs)")
    pytest.fail(f"{fact.id}: {file} is not in the installed {package}")


@lru_cache(maxsize=None)
def _format_strings(path: Path) -> tuple[str, ...]:
    """Every string of a module with its variable parts as {}; what a function adds to one name counts as one string."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    strings = [text for node in ast.walk(tree) if (text := _text(node)) is not None]
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            built: dict[str, str] = defaultdict(str)
            for node in ast.walk(function):
                if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                    built[node.target.id] += _joined(node.value)
            strings += built.values()
    return tuple(strings)


def _joined(node: ast.AST) -> str:
    text = _text(node)
    return text if text is not None else "".join(map(_joined, ast.iter_child_nodes(node)))


@lru_cache(maxsize=None)
def _names(path: Path) -> frozenset[str]:
    """The functions, classes and variables that a module defines."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return frozenset(found)


def _text(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _VARIABLE.sub("{}", node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(
            "{}" if isinstance(part, ast.FormattedValue) else _VARIABLE.sub("{}", part.value)  # type: ignore[attr-defined]
            for part in node.values
        )
    return None


@pytest.mark.parametrize("fact", LINES, ids=lambda fact: fact.id)
def test_the_line_stands_in_the_source(fact: facts.Fact) -> None:
    path = _source(fact)
    parts = [part for part in _VARIABLE.split(fact.says["text"]) if part.strip()]
    if path.suffix == ".so":
        with path.open("rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as content:
            assert all(content.find(part.encode()) >= 0 for part in parts)
        return
    in_order = re.compile(".*?".join(re.escape(part) for part in parts), re.DOTALL)
    assert any(in_order.search(text) for text in _format_strings(path)), f"{fact.id}: not in {path}"
    symbol = fact.source.get("symbol", "").rpartition(".")[2]
    assert not symbol or symbol in _names(path), f"{fact.id}: no {symbol} in {path}"


@pytest.mark.parametrize("fact", CODES, ids=lambda fact: fact.id)
def test_the_exit_code_stands_in_the_source(fact: facts.Fact) -> None:
    tree = ast.parse(_source(fact).read_text(encoding="utf-8"))
    symbol, code = fact.source["symbol"], fact.says["code"]
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == symbol for target in targets):
                assert isinstance(node.value, ast.Constant) and node.value.value == code
                return
        if isinstance(node, ast.FunctionDef) and node.name == symbol:
            set_to = {
                n.value.value for n in ast.walk(node) if isinstance(n, ast.Assign) and isinstance(n.value, ast.Constant)
            }
            assert code in set_to
            return
    pytest.fail(f"{fact.id}: no {symbol}")


def test_each_signature_names_a_fact_and_is_found_by_its_own_text() -> None:
    for signature in SIGNATURES:
        example = re.sub(r"\$?\{(\w+)\}", lambda m: _example(m[1]), signature.text)
        assert signature.pattern.search(example), signature.fact
        assert any(signature in group and literal.decode() in example for literal, group in by_literal().items())


def test_no_signature_stands_twice() -> None:
    named = [signature.fact for signature in SIGNATURES]
    assert len(named) == len(set(named))


def _example(name: str) -> str:
    return {"elapsed": "4.37", "timeout": "4.00", "exitcode": "-9", "role": "default", "check": "GPU check"}.get(
        name, "7"
    )
