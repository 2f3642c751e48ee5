# SPDX-License-Identifier: Apache-2.0
"""The launcher's facts, compared with the parser and the configuration class of the installed NVRx."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from mbridge_resiliency import facts

PACKAGE = "nvidia-resiliency-ext"


@pytest.fixture(scope="module")
def version() -> str:
    pytest.importorskip(
        "nvidia_resiliency_ext.fault_tolerance.launcher",
        reason=f"{PACKAGE} is not importable here; setup.sh makes an environment that has it",
        exc_type=ImportError,
    )
    return importlib.metadata.version(PACKAGE)


@pytest.fixture(scope="module")
def real_options(version: str) -> dict[str, Any]:
    from nvidia_resiliency_ext.fault_tolerance.launcher import get_args_parser

    return {
        max(action.option_strings, key=len) if action.option_strings[0][1] != "-" else action.option_strings[0]: action
        for action in get_args_parser()._actions
        if action.option_strings and action.dest != "help"
    }


def _facts(kind: str, version: str) -> list[facts.Fact]:
    return [
        fact
        for fact in facts.in_file("nvrx_launcher.yaml").values()
        if fact.kind == kind and fact.holds_for(PACKAGE, version)
    ]


def test_the_same_options(version: str, real_options: dict[str, Any]) -> None:
    assert {fact.says["name"] for fact in _facts("option", version)} == set(real_options)


def test_spellings_values_and_defaults(version: str, real_options: dict[str, Any]) -> None:
    for fact in _facts("option", version):
        action = real_options[fact.says["name"]]
        assert {fact.says["name"], *fact.says.get("also", ())} == set(action.option_strings), fact.id
        assert fact.says["takes"] == ("flag" if action.nargs == 0 else "one"), fact.id
        assert sorted(fact.says.get("choices", [])) == sorted(action.choices or []), fact.id
        default = fact.says["default"]
        assert action.default == (str(default) if isinstance(action.default, str) else default), fact.id


def test_environment_names(version: str, real_options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from nvidia_resiliency_ext.fault_tolerance.launcher import get_args_parser

    for fact in _facts("option", version):
        if "env" not in fact.says:
            continue
        action = real_options[fact.says["name"]]
        value = (action.choices or ["1"])[0]
        monkeypatch.setenv(fact.says["env"], value)
        assert str(getattr(get_args_parser().parse_args(["train.py"]), action.dest)) in (
            value,
            f"{value}.0",
            "True",
            "False",
        )
        monkeypatch.delenv(fact.says["env"])


def test_removed_options_are_refused(version: str) -> None:
    from nvidia_resiliency_ext.fault_tolerance.launcher import get_args_parser

    for fact in _facts("removed_option", version):
        given = fact.says["name"].replace("*", "rank_heartbeat_timeout")
        with pytest.raises(SystemExit) as stopped:
            get_args_parser().parse_args([f"{given}=60", "train.py"])
        assert stopped.value.code == 2, fact.id


def test_yaml_keys(version: str) -> None:
    from nvidia_resiliency_ext.fault_tolerance.config import FaultToleranceConfig

    real = {
        field.name: getattr(FaultToleranceConfig(), field.name) for field in dataclasses.fields(FaultToleranceConfig)
    }
    known = {fact.says["key"]: fact.says["default"] for fact in _facts("yaml_key", version)}
    assert known.keys() == real.keys()
    for key, default in known.items():
        if key == "rank_termination_signal":
            assert real[key] is signal.Signals[default]
        elif key != "log_level":
            assert real[key] == default, key


@pytest.mark.parametrize(
    "line",
    [
        "--max_restarts 3 --ft-rank_section_timeouts=setup:1,step:2 train.py --max-restarts 9 x",
        "--nnodes=1:2 --standalone train.py",
        "-m package.module --lr 1",
        "--max-restarts=3 -- train.py --ft-log-level=DEBUG",
        "-r 3 --tee 3 train.py",
        "-r3 train.py",
        "--ft-cfg-path a.yaml --ft-cfg_path=b.yaml train.py",
    ],
)
def test_a_command_line_is_read_as_the_launcher_reads_it(version: str, line: str, real_options: dict[str, Any]) -> None:
    from nvidia_resiliency_ext.fault_tolerance.launcher import get_args_parser

    from mbridge_resiliency.launch.read import job_of

    real = get_args_parser().parse_args(line.split())
    [launch] = job_of({"job.sh": f"ft_launcher {line}\n"}).launches
    assert launch.script is not None and launch.script.text == real.training_script
    given = [argument for argument in real.training_script_args if argument != "--"]
    assert [word.text for word in launch.arguments] == given
    for option in launch.options:
        value = getattr(real, real_options[option.name].dest)
        last = launch.option(option.name)
        assert str(value) == ("True" if last.value is None else last.value)


def test_the_drills_that_show_a_fact_exist() -> None:
    catalogue = Path(facts.__file__).parents[1] / "drills" / "catalogue.py"
    names = set(re.findall(r'name="([\w-]+)"', catalogue.read_text()))
    for file in ("nvrx_launcher.yaml", "bridge_ft.yaml"):
        for fact in facts.in_file(file).values():
            if fact.shown_by:
                assert fact.shown_by.removeprefix("drill:") in names, fact.id
