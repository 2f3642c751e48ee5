# SPDX-License-Identifier: Apache-2.0
"""Each fault really breaks the process it runs in, where and when it is meant to, once."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from mbridge_resiliency.drills import faults, processes
from mbridge_resiliency.drills.job import TRUTH, Fault

SCRIPTS = Path(faults.__file__).resolve().parents[2]
FAULT = Fault("exception", rank=1, iteration=7, where="step")


@pytest.fixture
def drill_folder(tmp_path, monkeypatch):
    (tmp_path / TRUTH).mkdir()
    monkeypatch.chdir(tmp_path)


def start(kind: str, **environment: str) -> subprocess.Popen[str]:
    code = f"from mbridge_resiliency.drills.faults import KINDS; print('ready', flush=True); KINDS[{kind!r}]()"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(SCRIPTS), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize(("kind", "code"), [("killed", -signal.SIGKILL), ("exception", 1), ("exit-zero", 0)])
def test_a_fault_that_ends_the_process(kind, code):
    process = start(kind)
    process.communicate(timeout=20)
    assert process.returncode == code


@pytest.mark.parametrize(("kind", "state"), [("stopped", "T"), ("hang", "S")])
def test_a_fault_that_only_stops_the_process(kind, state):
    process = start(kind)
    try:
        deadline = time.monotonic() + 20
        while (now := Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2][0]) != state:
            assert time.monotonic() < deadline, f"state {now}"
            time.sleep(0.05)
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


def test_a_job_that_is_told_to_stop_goes_on_once_its_launcher_has_told_this_rank():
    """Parent, in the launcher's place: passes its SIGTERM on. Child: a handler as Bridge's, then the fault."""
    child = (
        "import signal; from mbridge_resiliency.drills.faults import KINDS\n"
        "signal.signal(signal.SIGTERM, lambda *_: print('told', flush=True))\n"
        "own = signal.getsignal(signal.SIGTERM); KINDS['sigterm']()\n"
        "print('went on', signal.getsignal(signal.SIGTERM) is own)"
    )
    parent = (
        "import signal, subprocess, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: process.terminate())\n"
        "process = subprocess.Popen([sys.executable, '-c', sys.argv[1]])\n"
        "sys.exit(process.wait())"
    )
    done = subprocess.run(
        [sys.executable, "-c", parent, child],
        env={**os.environ, "PYTHONPATH": str(SCRIPTS)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout.splitlines()) == (0, ["told", "went on True"]), done.stderr


def test_a_lost_node_takes_every_process_of_that_node_and_no_other():
    sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]
    mine, other = (
        subprocess.Popen(sleeper, env={**os.environ, processes.MARK: mark}, start_new_session=True)
        for mark in ("test-lost-node/1", "test-lost-node/2")
    )
    try:
        process = start("node-lost", **{processes.MARK: "test-lost-node/1"})
        process.communicate(timeout=20)
        assert (process.returncode, mine.wait(timeout=20)) == (-signal.SIGKILL, -signal.SIGKILL)
        assert other.poll() is None
    finally:
        for each in (mine, other):
            each.kill()
            each.wait()


def test_a_fault_fires_where_it_is_meant_to_and_is_recorded_first(drill_folder):
    record = []
    with pytest.raises(OSError, match="Input/output"):
        faults.fire_if_due(FAULT, 1, 7, "step", lambda: record.append("fault"))
    assert record == ["fault"]


@pytest.mark.parametrize(("rank", "iteration", "where"), [(0, 7, "step"), (1, 6, "step"), (1, 7, "checkpoint")])
def test_a_fault_fires_nowhere_else(drill_folder, rank, iteration, where):
    faults.fire_if_due(FAULT, rank, iteration, where, lambda: pytest.fail("recorded"))


def test_a_fault_does_not_fire_again_after_the_restart(drill_folder):
    with pytest.raises(OSError):
        faults.fire_if_due(FAULT, 1, 7, "step", lambda: None)
    faults.fire_if_due(FAULT, 1, 7, "step", lambda: pytest.fail("recorded"))


def test_no_fault_is_no_fault(drill_folder):
    faults.fire_if_due(None, 1, 7, "step", lambda: pytest.fail("recorded"))


def test_a_fault_of_every_cycle_fires_again(drill_folder):
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output"):
            faults.fire_if_due(replace(FAULT, every_cycle=True), 1, 7, "step", lambda: None)
