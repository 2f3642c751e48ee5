# SPDX-License-Identifier: Apache-2.0
"""Options read from source are those that the parser really has."""

import json
import subprocess
from pathlib import Path

import pytest

from mbridge_resiliency.upstream import parsers, sources
from mbridge_resiliency.upstream.symbols import Symbols

HELPERS = """
from typing import Any
PORT = 50051

def _add_argument(parser, *names, action=None, **kwargs):
    if action is not None:
        kwargs["action"] = action
    parser.add_argument(*names, **kwargs)

def _add_nodes(parser, *, default="1:1", required=False, action=None):
    kwargs: dict[str, Any] = {"type": str, "help": "nodes"}
    if required:
        kwargs["required"] = True
    else:
        kwargs["default"] = default
    _add_argument(parser, "--nnodes", action=action, **kwargs)

def add_all(parser, *, action=None, nodes="1:1", aliases=("--cfg",), with_port=True, more: bool = False):
    _add_nodes(parser, default=nodes, action=action)
    _add_argument(parser, *aliases, type=str, default=None, dest="cfg")
    if with_port:
        parser.add_argument("--port", type=int, default=PORT)
    if not more:
        return
    parser.add_argument("--never")
"""
MAIN = """
import argparse
from .helpers import add_all

def get_parser():
    parser = argparse.ArgumentParser()
    group = parser.add_argument_group("x")
    add_all(parser, action=env, nodes="2", aliases=("--ft-cfg", "--ft_cfg"), with_port={port})
    group.add_argument("--plain", choices=CHOICES, default=3)
    return parser
CHOICES = ["a", "b"]
"""


def read(make_release, port=True):
    files = {"nemo_run/helpers.py": HELPERS, "nemo_run/main.py": MAIN.format(port=port)}
    symbols = Symbols(make_release({"nemo-run": files}))
    return {o.names[0]: o for o in parsers.options(symbols, symbols.file("nemo_run/main.py"), "get_parser")}


def test_helpers_are_followed_with_the_arguments_they_are_given(make_release):
    found = read(make_release)
    assert set(found) >= {"--nnodes", "--ft-cfg", "--port", "--plain"}
    assert (found["--nnodes"].default.value, found["--nnodes"].type, found["--nnodes"].env) == ("2", "str", True)
    assert (found["--ft-cfg"].names, found["--ft-cfg"].dest) == (("--ft-cfg", "--ft_cfg"), "cfg")
    assert found["--port"].default.value == 50051
    assert found["--plain"].choices.value == ["a", "b"]


def test_a_branch_that_is_not_taken_adds_no_option(make_release):
    assert "--port" not in read(make_release, port=False)


#: What ft_launcher's own parser says of itself.
ASK_PARSER = """
import dataclasses, json
from nvidia_resiliency_ext.fault_tolerance.config import FaultToleranceConfig
from nvidia_resiliency_ext.fault_tolerance.launcher import get_args_parser
actions = [a for a in get_args_parser()._actions if a.dest != "help"]
options = [[a.option_strings or [a.dest], a.default, list(a.choices) if a.choices else None, a.nargs] for a in actions]
config = FaultToleranceConfig()
fields = {f.name: getattr(config, f.name) for f in dataclasses.fields(config)}
print(json.dumps([options, fields], default=str))
"""


@pytest.mark.parametrize("nvrx", ["0.7.0", "0.6.0"])
def test_ft_launcher_s_parser_and_settings_are_read_as_they_are(real, nvrx):
    place: Path = real(nvrx)
    python = place.parents[2] / "bin" / "python"
    asked = subprocess.run([str(python), "-c", ASK_PARSER], capture_output=True, text=True)
    if asked.returncode:
        pytest.skip(f"ft_launcher cannot be imported there: {asked.stderr.splitlines()[-1]}")
    options, fields = json.loads(asked.stdout.splitlines()[-1])
    release = sources.Release("x", {p.name: p for p in sources.installed([str(place)])})
    symbols = Symbols(release)
    launcher = symbols.file("nvidia_resiliency_ext/fault_tolerance/launcher.py")
    found = {tuple(o.names): o for o in parsers.options(symbols, launcher, "get_args_parser")}
    assert len(options) > 70
    assert {tuple(names) for names, *_ in options} == set(found)
    for names, default, choices, count in options:
        option = found[tuple(names)]
        assert option.default.known and option.default.value == default, names
        assert (list(option.choices.value) if option.choices else None) == choices, names
        assert (option.takes == "flag") == (count == 0), names
    read_fields = symbols.class_fields(
        symbols.file("nvidia_resiliency_ext/fault_tolerance/config.py"), "FaultToleranceConfig"
    ).fields
    assert set(read_fields) == set(fields)
    plain = {name: value for name, value in fields.items() if read_fields[name].default.known}
    assert len(plain) > len(fields) - 3  # a signal and a logging level are names
    assert {name: read_fields[name].default.value for name in plain} == plain


def test_an_argument_without_a_spelling_goes_by_its_destination(make_release):
    text = "def p(parser):\n    parser.add_argument(action='store_true', dest='ignore_missing')\n"
    symbols = Symbols(make_release({"nemo-run": {"nemo_run/main.py": text}}))
    (option,) = parsers.options(symbols, symbols.file("nemo_run/main.py"), "p")
    assert (option.names, option.takes) == (("ignore_missing",), "flag")
