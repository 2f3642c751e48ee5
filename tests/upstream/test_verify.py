# SPDX-License-Identifier: Apache-2.0
"""Every verdict for every kind of fact, on a package made for it."""

# ruff: noqa: E501  (a case a line)

import json

import pytest

from mbridge_resiliency import facts as fact_store
from mbridge_resiliency.facts import KINDS, Fact
from mbridge_resiliency.upstream import kinds, verify
from mbridge_resiliency.upstream.symbols import REQUIRED

SOURCE = '''
import logging
import os
import signal
import sys
import warnings
from dataclasses import dataclass, field
from typing import Optional

LOG_NAME = "nvrx"
logger = logging.getLogger(LOG_NAME)
own_logger = logging.getLogger(__name__)
SOCKET = "RANK_SOCKET"
LIMIT = 3 * 60
PREFIX = "latest"
STATE_FILE = "state.pt"
EXIT_NO_RESTART = 93


@dataclass
class Config:
    """Settings that nobody prints."""

    """Nor is this printed: the sky is blue."""
    interval: float = 5.0
    timeouts: dict = field(default_factory=dict)
    names: list[str] = field(default_factory=lambda: ["a", "b"])
    stop: signal.Signals = signal.SIGKILL
    level: int = logging.INFO
    save: Optional[str] = None
    enabled: bool = True
    given: str
    limit: int = LIMIT
    RATIO = 0.5


def parser():
    import argparse

    p = argparse.ArgumentParser()
    p.add_argument("--max-restarts", "--max_restarts", type=int, default=0, action=env)
    p.add_argument("--policy", choices=["any", "all"], default="any", type=str)
    p.add_argument("--quiet", action="store_true", help="print nothing at all, ever")
    p.add_argument("--sizes", nargs="+", type=int, default=None)
    p.add_argument("script", type=str)
    p.add_argument("script_args", nargs=argparse.REMAINDER)
    return p


class Monitor:
    def watch(self, section, elapsed, limit=10):
        logger.warning(
            f"[Cycle {self.cycle}] Section '{section}' has been open for {elapsed:.2f} seconds. "
            f"Timeout is {limit:.2f} seconds."
        )
        own_logger.info("stopping %s after %d seconds", section, elapsed)
        print_rank_0("closed: {}".format(section))
        message = f"limit is {limit}"
        self.logger.error(message)
        text = f" iteration {elapsed}/{limit} |"
        text += f" samples: {limit} |"
        text += " skipped: %d |" % limit
        print_rank_last(text)
        logger.exception(f"failed: {section}")
        logger.info("wide open" if section else "shut tight")
        self.complain(f"too late by {elapsed}")
        self.client.start_section("setup")

    def complain(self, message):
        logger.error(message)

    def check(self, value):
        if value < 0:
            raise ValueError(f"interval must be positive, not {value}")
        assert value < 10, "interval is too long"
        raise RuntimeError(f"{SOCKET} must be set")


def launch():
    os.environ["WORKER_COUNT"] = "1"
    path = os.path.join(os.environ.get(SOCKET, ""), "ft_state.json")
    checkpoint = "iter_{:07d}".format(3)
    state = f"{PREFIX}_{STATE_FILE}"
    os.kill(0, signal.SIGCONT)
    if path:
        sys.exit(EXIT_NO_RESTART)
    exit_code = 1
    sys.exit(exit_code)
'''

OPTION = {"takes": "one"}
#: (kind, says, symbol, verdict, what the verdict must mention)
CASES = [
    ("option", {"name": "--max-restarts", "also": ["--max_restarts"], "takes": "one", "default": 0, "type": "int"}, "parser", "holds", ""),
    ("option", {"name": "--max_restarts", "takes": "one", "default": 0, "env": True}, "parser", "holds", ""),
    ("option", {"name": "--max-restarts", "takes": "one", "default": 3}, "parser", "differs", "default 0"),
    ("option", {"name": "--max-restarts", "also": [], "takes": "one", "default": 0}, "parser", "differs", "--max_restarts"),
    ("option", {"name": "--max-restarts", "takes": "flag", "default": 0}, "parser", "differs", "takes one"),
    ("option", {"name": "--max-restarts", "takes": "one", "default": 0, "type": "float"}, "parser", "differs", "int"),
    ("option", {"name": "--max-restarts", "takes": "one", "default": 0, "env": False}, "parser", "differs", "env True"),
    ("option", {"name": "--policy", "takes": "one", "default": "any", "choices": ["all", "any"]}, "parser", "holds", ""),
    ("option", {"name": "--policy", "takes": "one", "default": "any", "choices": ["any"]}, "parser", "differs", "all"),
    ("option", {"name": "--quiet", "takes": "flag", "default": False}, "parser", "holds", ""),
    ("option", {"name": "--sizes", "takes": "many", "default": None}, "parser", "holds", ""),
    ("option", {"name": "script_args", "takes": "rest", "default": None}, "parser", "holds", ""),
    ("option", {"name": "--max-restart", "takes": "one", "default": 0}, "parser", "gone", "--max-restarts"),
    ("option", {"name": "--max-restarts", "takes": "one", "default": 0}, "Monitor", "gone", ""),
    ("removed_option", {"name": "--ft-param-*", "instead": "--ft-*"}, "parser", "holds", ""),
    ("removed_option", {"name": "--max*", "instead": "nothing"}, "parser", "differs", "--max-restarts accepted"),
    ("config_field", {"class": "Config", "field": "interval", "type": "float", "default": 5}, "Config", "holds", ""),
    ("config_field", {"class": "Config", "field": "timeouts", "type": "Dict", "default": {}}, "Config", "holds", ""),
    ("config_field", {"class": "Config", "field": "names", "type": "List[str]", "default": ["a", "b"]}, "Config", "holds", ""),
    ("config_field", {"class": "Config", "field": "stop", "type": "Signals", "default": "SIGKILL"}, "Config", "holds", ""),
    ("config_field", {"class": "Config", "field": "stop", "type": "Signals", "default": "SIGTERM"}, "Config", "differs", "SIGKILL"),
    ("config_field", {"class": "Config", "field": "level", "type": "int", "default": "INFO"}, "Config", "holds", ""),
    ("config_field", {"class": "Config", "field": "save", "type": "str | None", "default": None}, "Config", "holds", ""),
    ("config_field", {"class": "Config", "field": "save", "type": "str", "default": None}, "Config", "differs", "Optional[str]"),
    ("config_field", {"class": "Config", "field": "enabled", "type": "bool", "default": 1}, "Config", "differs", "True"),
    ("config_field", {"class": "Config", "field": "given", "type": "str", "default": REQUIRED}, "Config", "holds", ""),
    ("config_field", {"class": "Config", "field": "given", "type": "str", "default": None}, "Config", "differs", REQUIRED),
    ("config_field", {"class": "Config", "field": "limit", "type": "int", "default": 180}, "Config", "holds", ""),
    ("config_field", {"class": "Config", "field": "limit", "type": "int", "default": 60}, "Config", "differs", "180"),
    ("config_field", {"class": "Config", "field": "intervall", "type": "float", "default": 5}, "Config", "gone", "interval"),
    ("config_field", {"class": "Config", "field": "interval", "type": "float", "default": 5}, "Confg", "gone", "Config"),
    ("yaml_key", {"key": "save", "type": "str or null", "default": None}, "Config", "holds", ""),
    ("yaml_key", {"key": "save", "type": "a path, or null"}, "Config", "holds", ""),
    ("yaml_key", {"key": "saves"}, "Config", "gone", "save"),
    ("yaml_key", {"key": "WORKER_COUNTS"}, "launch", "gone", ""),
    ("constant", {"name": "LIMIT", "value": 180}, "", "holds", ""),
    ("constant", {"name": "RATIO", "value": 0.5}, "Config", "holds", ""),
    ("constant", {"name": "LIMIT", "value": 60}, "LIMIT", "differs", "180"),
    ("constant", {"name": "LIMITS", "value": 60}, "", "gone", "LIMIT"),
    ("parameter", {"name": "limit", "default": 10}, "Monitor.watch", "holds", ""),
    ("parameter", {"name": "limit", "default": 11}, "Monitor.watch", "differs", "10"),
    ("parameter", {"name": "limits", "default": 10}, "Monitor.watch", "gone", "limit"),
    ("parameter", {"name": "limit", "default": 10}, "Config", "gone", ""),
    ("section", {"name": "setup"}, "Monitor.watch", "holds", ""),
    ("section", {"name": "setups"}, "Monitor.watch", "gone", "setup"),
    ("log_line", {"text": "[Cycle {n}] Section '{s}' has been open for {a} seconds. Timeout is {b} seconds.", "level": "WARNING", "logger": "nvrx", "rank": "any"}, "Monitor.watch", "holds", ""),
    ("log_line", {"text": "Section '{s}' has been open for", "level": "WARNING", "logger": "nvrx", "rank": "any"}, "Monitor", "holds", ""),
    ("log_line", {"text": "Section '{s}' was open for {a} seconds. Timeout is {b} seconds.", "level": "WARNING", "logger": "nvrx", "rank": "any"}, "Monitor.watch", "differs", "has been open"),
    ("log_line", {"text": "Section '{s}' has been open for", "level": "INFO", "logger": "nvrx", "rank": "any"}, "Monitor.watch", "differs", "warning"),
    ("log_line", {"text": "Section '{s}' has been open for", "level": "WARNING", "logger": "other", "rank": "any"}, "Monitor.watch", "differs", "nvrx"),
    ("log_line", {"text": "Section '{s}' has been open for", "level": "WARNING", "logger": "nvrx", "rank": "any"}, "launch", "differs", "Monitor.watch"),
    ("log_line", {"text": "stopping {s} after {n} seconds", "level": "INFO", "logger": "nvidia_resiliency_ext.a", "rank": "any"}, "Monitor.watch", "holds", ""),
    ("log_line", {"text": "closed: {section}", "level": "none", "logger": "stdout", "rank": "0"}, "Monitor.watch", "holds", ""),
    ("log_line", {"text": "closed: {section}", "level": "none", "logger": "stdout", "rank": "every"}, "Monitor.watch", "differs", "rank 0"),
    ("log_line", {"text": "limit is {limit}", "level": "ERROR", "logger": "nvrx", "rank": "any"}, "Monitor.watch", "holds", ""),
    ("log_line", {"text": "limit is {limit}", "level": "INFO", "logger": "nvrx", "rank": "any"}, "Monitor.watch", "differs", "error"),
    ("log_line", {"text": " iteration {a}/{b} | samples: {c} | skipped: {d} |", "level": "none", "logger": "stdout", "rank": "last"}, "Monitor.watch", "holds", ""),
    ("log_line", {"text": "failed: {section}", "level": "ERROR", "logger": "nvrx", "rank": "any"}, "Monitor.watch", "holds", ""),
    ("log_line", {"text": "shut tight", "level": "INFO", "logger": "nvrx", "rank": "any"}, "Monitor.watch", "holds", ""),
    ("log_line", {"text": "too late by {n}", "level": "ERROR", "logger": "nvrx", "rank": "any"}, "Monitor.watch", "holds", ""),
    ("log_line", {"text": "too late by {n}", "level": "INFO", "logger": "nvrx", "rank": "any"}, "Monitor.watch", "differs", "error"),
    ("log_line", {"text": "[FaultTolerance] started with {x}", "level": "INFO", "logger": "nvrx", "rank": "any"}, "Monitor.watch", "gone", "nothing like it"),
    ("log_line", {"text": "Settings that nobody prints", "level": "none", "logger": "", "rank": "any"}, "Config", "gone", ""),
    ("log_line", {"text": "the sky is blue", "level": "none", "logger": "", "rank": "any"}, "Config", "gone", ""),
    ("log_line", {"text": "print nothing at all, ever", "level": "none", "logger": "", "rank": "any"}, "parser", "gone", ""),
    ("error", {"raises": "ValueError", "text": "interval must be positive, not {value}"}, "Monitor.check", "holds", ""),
    ("error", {"raises": "AssertionError", "text": "interval is too long"}, "Monitor.check", "holds", ""),
    ("error", {"raises": "RuntimeError", "text": "RANK_SOCKET must be set"}, "Monitor.check", "holds", ""),
    ("error", {"raises": "TypeError", "text": "interval must be positive, not {value}"}, "Monitor.check", "differs", "ValueError"),
    ("error", {"raises": "ValueError", "text": "failed: {section}"}, "Monitor.watch", "differs", "logger.exception"),
    ("error", {"raises": "ValueError", "text": "no such sentence anywhere"}, "Monitor.check", "gone", ""),
    ("validation", {"raises": "ValueError", "text": "interval must be positive"}, "Monitor.check", "holds", ""),
    ("validation", {"raises": "ValueError", "text": "interval must be negative, not {value}"}, "Monitor.check", "differs", "positive"),
    ("validation", {"raises": "ValueError", "text": "no such sentence anywhere"}, "Monitor.check", "gone", ""),
    ("exit_code", {"code": 93, "program": "x", "means": "y"}, "EXIT_NO_RESTART", "holds", ""),
    ("exit_code", {"code": 94, "program": "x", "means": "y"}, "EXIT_NO_RESTART", "differs", "93"),
    ("exit_code", {"code": 93, "program": "x", "means": "y"}, "launch", "holds", ""),
    ("exit_code", {"code": 1, "program": "x", "means": "y"}, "launch", "holds", ""),
    ("exit_code", {"code": 7, "program": "x", "means": "y"}, "launch", "gone", ""),
    ("env_var", {"name": "RANK_SOCKET", "read_by": "launch"}, "launch", "holds", ""),
    ("env_var", {"name": "WORKER_COUNT", "set_by": "launch"}, "launch", "holds", ""),
    ("env_var", {"name": "WORKER_COUNT", "read_by": "launch"}, "launch", "differs", "write"),
    ("env_var", {"name": "PET_MAX_RESTARTS", "read_by": "parser"}, "parser", "holds", ""),
    ("env_var", {"name": "PET_POLICY", "read_by": "parser"}, "parser", "gone", ""),
    ("env_var", {"name": "RANK_SOCKETS", "read_by": "launch"}, "launch", "gone", "RANK_SOCKET"),
    ("file", {"path": "{save}/ft_state.json", "written_by": "rank 0"}, "launch", "holds", ""),
    ("file", {"path": "{save}/iter_{iteration}", "written_by": "rank 0"}, "launch", "holds", ""),
    ("file", {"path": "{save}/ft_state.json", "written_by": "rank 0"}, "Monitor", "differs", "launch"),
    ("file", {"path": "{save}/latest_state.pt", "written_by": "rank 0"}, "launch", "holds", ""),
    ("file", {"path": "{save}/latest_states.pt", "written_by": "rank 0"}, "launch", "gone", ""),
    ("file", {"path": "{save}/ft_state.yaml", "written_by": "rank 0"}, "launch", "gone", "ft_state.json"),
    ("signal", {"signal": "SIGCONT", "sent_by": "x", "to": "y"}, "launch", "holds", ""),
    ("signal", {"signal": "SIGSTOP", "sent_by": "x", "to": "y"}, "launch", "gone", ""),
]  # fmt: skip


@pytest.mark.parametrize(
    "kind,says,symbol,wanted,mentions", CASES, ids=[f"{c[0]}-{c[3]}-{n}" for n, c in enumerate(CASES)]
)
def test_verdict(check, kind, says, symbol, wanted, mentions):
    verdict = check(SOURCE, kind, says, symbol)
    assert verdict.verdict == wanted, verdict
    assert mentions in f"{verdict.found} {verdict.reason}"
    if wanted in ("holds", "differs"):
        assert verdict.place.startswith("nvidia_resiliency_ext/a.py:")
    if wanted == "differs":
        assert verdict.claimed and verdict.found


def test_every_kind_with_a_verifier_is_shown_to_hold_and_to_fail():
    shown = {(kind, verdict) for kind, _, _, verdict, _ in CASES}
    for kind in kinds.AT_SOURCE:
        assert (kind, "holds") in shown, kind
        assert {(kind, "differs"), (kind, "gone")} & shown, kind


def test_every_kind_of_fact_can_be_verified():
    by_pattern = {"behaviour", "upstream_bug"}
    assert set(KINDS) == set(kinds.AT_SOURCE) | set(kinds.OF_PACKAGE) | by_pattern


# ---- patterns in any fact ----


def test_behaviour_holds_while_its_code_stands_there(check):
    assert check(SOURCE, "behaviour", {"statement": "s"}, "launch", has="os.kill(0, signal.SIGCONT)").verdict == "holds"


def test_behaviour_is_gone_with_its_code(check):
    verdict = check(SOURCE, "behaviour", {"statement": "s"}, "launch", has="os.kill(1, signal.SIGCONT)")
    assert (verdict.verdict, "os.kill(0" in verdict.reason) == ("gone", True)


def test_behaviour_differs_when_what_was_absent_is_there(check):
    verdict = check(SOURCE, "behaviour", {"statement": "s"}, "Monitor", lacks="....start_section(...)")
    assert (verdict.verdict, verdict.found) == ("differs", 'code self.client.start_section("setup")')


def test_the_worst_of_several_proofs_counts(check):
    also = [{"file": "nvidia_resiliency_ext/a.py", "symbol": "launch", "has": "sys.exit(3)"}]
    verdict = check(SOURCE, "constant", {"name": "LIMIT", "value": 180}, has="LIMIT = 3 * 60", also=also)
    assert verdict.verdict == "gone"


def test_a_text_in_none_of_the_files(check):
    said = {"statement": "nothing reads it"}
    path = "**"
    assert (
        check(SOURCE, "behaviour", said, path=path, lacks="CFG_PATH", file="nvidia_resiliency_ext/**").verdict
        == "holds"
    )
    verdict = check(SOURCE, "behaviour", said, path="a.py", lacks="RANK_SOCKET", file="nvidia_resiliency_ext/**")
    assert verdict.verdict == "differs"
    assert verdict.place.startswith("nvidia_resiliency_ext/a.py:")


def test_a_template_is_searched_as_text(check):
    template = '{% macro teardown() %}\nif ! (finished || limit);   then\n  scontrol requeue "$JOB"\nfi\n{% endmacro %}'
    said = {"statement": "s"}
    held = check(template, "behaviour", said, "teardown", "t.j2", has="if ! (finished || limit); then scontrol requeue")
    assert held.verdict == "holds"
    assert check(template, "behaviour", said, "teardown", "t.j2", has="scontrol cancel").verdict == "gone"
    assert check(template, "behaviour", said, "tear_down", "t.j2", has="requeue").verdict == "gone"
    assert check(template, "env_var", {"name": "JOB", "read_by": "x"}, path="t.j2").verdict == "holds"


# ---- what cannot be told ----


@pytest.mark.parametrize(
    "kind,says,source,reason",
    [
        ("behaviour", {"statement": "s"}, {"symbol": "launch"}, "neither a pattern"),
        ("behaviour", {"statement": "s"}, {"symbol": "launch", "shown_by": "drill:hang"}, "a run shows it: drill:hang"),
        (
            "exit_code",
            {"code": 137, "program": "x", "means": "y"},
            {"symbol": "launch", "shown_by": "drill:kill"},
            "a run",
        ),
        ("error", {"raises": "KeyError", "text": "'step'"}, {"symbol": "launch", "shown_by": "drill:x"}, "a run"),
        ("behaviour", {"statement": "s"}, {"symbol": "launch", "has": "not python ("}, "no Python"),
        ("behaviour", {"statement": "s"}, {"path": "lib.so", "has": "x"}, "compiled"),
        ("behaviour", {"statement": "s"}, {"package": "megatron-core", "has": "x"}, "megatron-core is not there"),
        ("behaviour", {"statement": "s"}, {"file": "examples/run.py", "has": "x"}, "use --checkout"),
        ("path", {"path": "tests/test_x.py"}, {}, "use --checkout"),
        ("path", {"path": "uv.lock", "exists": False}, {}, "use --checkout"),
        ("behaviour", {"statement": "s"}, {"file": "README.md", "has": "x"}, "use --checkout"),
        ("requirement", {"needs": "nccl"}, {}, "neither a pattern"),
    ],
)
def test_could_not_tell_says_why(check, kind, says, source, reason):
    verdict = check(SOURCE, kind, says, **source)
    assert (verdict.verdict, reason in verdict.reason) == ("could_not_tell", True), verdict


def test_a_symbol_of_a_package_that_is_not_there_could_not_be_told(check):
    text = "from megatron.core.utils import save\n"
    verdict = check(text, "behaviour", {"statement": "s"}, "save", has="save(...)")
    assert (verdict.verdict, "megatron.core.utils" in verdict.reason) == ("could_not_tell", True), verdict


def test_a_run_does_not_excuse_a_symbol_that_is_gone(check):
    assert check(SOURCE, "behaviour", {"statement": "s"}, "lunch", shown_by="drill:hang").verdict == "gone"


def test_source_of_a_newer_python_could_not_be_told(check):
    verdict = check("def f(:\n", "constant", {"name": "A", "value": 1})
    assert (verdict.verdict, "cannot parse" in verdict.reason) == ("could_not_tell", True)


def test_a_missing_file_names_where_one_of_its_name_is(make_release):
    release = make_release({"nvidia-resiliency-ext": {"nvidia_resiliency_ext/new/place/config.py": "A = 1"}})
    source = {"package": "nvidia-resiliency-ext", "file": "nvidia_resiliency_ext/old/place/config.py"}
    fact = Fact("a", "constant", {"name": "A", "value": 1}, {}, source)
    (verdict,) = verify.verify_all([fact], release)
    assert (verdict.verdict, "nvidia_resiliency_ext/new/place/config.py" in verdict.reason) == ("gone", True)


def test_a_line_that_moved_to_another_file_is_found_there(make_release):
    files = {
        "nvidia_resiliency_ext/a.py": "def f():\n    pass\n",
        "nvidia_resiliency_ext/b.py": "def g(n):\n    print(f'cycle {n} has ended well')\n",
    }
    says = {"text": "cycle {n} has ended well", "level": "none", "logger": "stdout", "rank": "any"}
    source = {"package": "nvidia-resiliency-ext", "file": "nvidia_resiliency_ext/a.py", "symbol": "f"}
    (verdict,) = verify.verify_all(
        [Fact("a", "log_line", says, {}, source)], make_release({"nvidia-resiliency-ext": files})
    )
    assert (verdict.verdict, "nvidia_resiliency_ext/b.py:2" in verdict.reason) == ("gone", True)


# ---- the package as a whole ----


@pytest.mark.parametrize(
    "says,wanted",
    [
        ({"path": "nvidia_resiliency_ext/a.py"}, "holds"),
        ({"path": "nvidia_resiliency_ext/sub/"}, "holds"),
        ({"path": "nvidia_resiliency_ext/b.py"}, "gone"),
        ({"path": "nvidia_resiliency_ext/b.py", "exists": False}, "holds"),
        ({"path": "nvidia_resiliency_ext/a.py", "exists": False}, "differs"),
    ],
)
def test_path(make_release, says, wanted):
    release = make_release(
        {"nvidia-resiliency-ext": {"nvidia_resiliency_ext/a.py": "", "nvidia_resiliency_ext/sub/c.py": ""}}
    )
    (verdict,) = verify.verify_all([Fact("a", "path", says, {}, {"package": "nvidia-resiliency-ext"})], release)
    assert verdict.verdict == wanted


@pytest.mark.parametrize(
    "kind,says,wanted",
    [
        ("entry_point", {"name": "ft_launcher", "target": "nvidia_resiliency_ext.launcher:main"}, "holds"),
        ("entry_point", {"name": "ft_launcher", "target": "nvidia_resiliency_ext.other:main"}, "differs"),
        ("entry_point", {"name": "ft_launch"}, "gone"),
        ("requirement", {"needs": "python", "spec": ">=3.10,<3.13"}, "holds"),
        ("requirement", {"needs": "python", "spec": ">=3.10"}, "differs"),
        ("requirement", {"needs": "glibc", "spec": ">=2.39"}, "holds"),
        ("requirement", {"needs": "glibc", "spec": ">=2.31"}, "differs"),
        ("requirement", {"needs": "torch", "spec": ">=2.3.0"}, "holds"),
        ("requirement", {"needs": "Grpcio", "spec": "==1.0", "extra": "log"}, "holds"),
        ("requirement", {"needs": "grpcio", "spec": "==1.0"}, "gone"),
        ("requirement", {"needs": "torch", "spec": "about two"}, "could_not_tell"),
    ],
)
def test_metadata(make_release, kind, says, wanted):
    release = make_release(
        {"nvidia-resiliency-ext": {}},
        metadata='Requires-Python: <3.13,>=3.10\nRequires-Dist: torch (>=2.3.0)\nRequires-Dist: grpcio==1.0; extra == "log"\n',
        scripts="[console_scripts]\nft_launcher = nvidia_resiliency_ext.launcher:main\n",
        tag="cp312-cp312-manylinux_2_39_x86_64",
    )
    (verdict,) = verify.verify_all([Fact("a", kind, says, {}, {"package": "nvidia-resiliency-ext"})], release)
    assert verdict.verdict == wanted, verdict


# ---- versions ----


def test_only_the_versions_a_fact_claims_are_checked(make_release):
    release = make_release({"nvidia-resiliency-ext": {"nvidia_resiliency_ext/a.py": "A = 1"}})
    source = {"package": "nvidia-resiliency-ext", "file": "nvidia_resiliency_ext/a.py", "symbol": "A"}
    now = Fact("now", "constant", {"name": "A", "value": 1}, {"nvidia-resiliency-ext": ">=1.0"}, source)
    later = Fact("later", "constant", {"name": "A", "value": 1}, {"nvidia-resiliency-ext": ">=2.0"}, source)
    other = Fact("other", "constant", {"name": "A", "value": 1}, {}, {**source, "package": "megatron-core"})
    assert [v.fact for v in verify.verify_all([now, later, other], release)] == ["now"]
    outside = verify.verify_all([now, later], release, outside=True)
    assert [(v.fact, v.verdict, v.claims) for v in outside] == [("now", "holds", True), ("later", "holds", False)]


def test_what_was_read_is_kept_and_read_again_when_the_file_changes(make_release, own_cache):
    def verdict(text):
        release = make_release({"nvidia-resiliency-ext": {"nvidia_resiliency_ext/a.py": text}})
        source = {"package": "nvidia-resiliency-ext", "file": "nvidia_resiliency_ext/a.py", "has": "A = ..."}
        (one,) = verify.verify_all([Fact("a", "constant", {"name": "A", "value": 1}, {}, source)], release)
        return one.verdict

    assert verdict("A = 1") == "holds"
    (kept,) = own_cache.rglob("*.json")
    assert "index" in json.loads(kept.read_text())
    assert verdict("A = 1") == "holds"
    assert verdict("A = 2") == "differs"
    kept.write_text("{ torn")
    assert verdict("A = 1") == "holds"


def test_the_facts_of_the_skill_are_readable():
    assert len(fact_store.all_facts()) > 100
