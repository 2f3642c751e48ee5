# SPDX-License-Identifier: Apache-2.0
"""However a run ends, no process of it is left. Stand-ins for the launcher do what the real one cannot be asked to."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from mbridge_resiliency.drills import catalogue, processes, runner
from mbridge_resiliency.drills.environment import Environment
from mbridge_resiliency.drills.job import Job

HEALTHY = catalogue.find("healthy")


@pytest.fixture
def launcher(tmp_path):
    """Make an environment whose ft_launcher is the given shell script."""

    def make(script: str) -> Environment:
        folder = tmp_path / "environment"
        folder.mkdir()
        program = folder / "ft_launcher"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return Environment(folder / "python", {"torch": "0"})

    return make


@pytest.fixture
def runs(monkeypatch):
    """The ids of the runs that were started."""
    started = []
    original = runner._Launchers.__init__

    def remember(self, *arguments):
        original(self, *arguments)
        started.append(self._id)

    monkeypatch.setattr(runner._Launchers, "__init__", remember)
    return started


DETACHED = "setsid sleep 60 &\nsleep 0.3"
JOIN = "echo attempts to join the next round of the rendezvous"


def test_processes_that_outlive_the_launcher_are_ended_and_counted(launcher, runs, tmp_path):
    run = runner.run(HEALTHY, launcher(f"{DETACHED}\nexit 3"), tmp_path / "run")
    assert (run.exit_codes, run.timed_out, run.orphans) == ((3,), False, 1)
    assert processes.marked(runs[0]) == []


def test_a_run_that_does_not_end_is_ended_at_the_limit(launcher, runs, tmp_path):
    run = runner.run(HEALTHY, launcher(f"{DETACHED}\nsleep 60"), tmp_path / "run", limit_seconds=1.0)
    assert (run.exit_codes, run.timed_out) == ((None,), True)
    assert processes.marked(runs[0]) == []


def test_a_stopped_process_is_ended(launcher, runs, tmp_path):
    runner.run(HEALTHY, launcher("sleep 60 & kill -STOP $!\nkill -STOP $$"), tmp_path / "run", limit_seconds=1.0)
    assert processes.marked(runs[0]) == []


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit, OSError])
def test_an_interrupted_run_leaves_nothing(launcher, runs, tmp_path, monkeypatch, interruption):
    def interrupt(*_):
        time.sleep(0.5)
        assert len(processes.marked(runs[0])) >= 2
        raise interruption

    monkeypatch.setattr(runner, "_watch", interrupt)
    with pytest.raises(interruption):
        runner.run(HEALTHY, launcher(f"{DETACHED}\nsleep 60"), tmp_path / "run")
    assert processes.marked(runs[0]) == []


def test_a_node_that_cannot_start_takes_the_others_with_it(launcher, runs, tmp_path, monkeypatch):
    start = runner._Launchers._start

    def start_first_alone(self, group_rank):
        if group_rank:
            raise OSError
        start(self, group_rank)

    monkeypatch.setattr(runner._Launchers, "_start", start_first_alone)
    drill = replace(HEALTHY, launch=catalogue.Launch(nodes=2))
    with pytest.raises(OSError):
        runner.run(drill, launcher(f"{DETACHED}\n{JOIN}\nsleep 60"), tmp_path / "run")
    assert processes.marked(runs[0]) == []


def test_nodes_join_in_order_so_that_the_first_hosts_the_store_and_the_last_is_the_spare(launcher, tmp_path):
    script = f'[ "$GROUP_RANK" = 0 ] && sleep 0.5\necho "$GROUP_RANK" >> joined\n{JOIN}\nsleep 1'
    drill = replace(HEALTHY, launch=catalogue.Launch(nodes=2, spare_nodes=1))
    runner.run(drill, launcher(script), tmp_path / "run")
    assert (tmp_path / "run" / "joined").read_text().split() == ["0", "1", "2"]


def test_a_lost_node_is_replaced_once_and_keeps_its_rank(launcher, tmp_path):
    lose_it_once = '[ "$GROUP_RANK" = 1 ] && mkdir lost 2>/dev/null && kill -KILL $$'
    script = f'echo "$GROUP_RANK" >> launched\n{JOIN}\n{lose_it_once}\nsleep 1'
    drill = replace(HEALTHY, launch=catalogue.Launch(nodes=2, replacement_after=0.2))
    run = runner.run(drill, launcher(script), tmp_path / "run")
    assert run.exit_codes == (0, -9, 0)
    assert sorted((tmp_path / "run" / "launched").read_text().split()) == ["0", "1", "1"]
    logs = sorted(path.name for path in (tmp_path / "run" / "logs").iterdir())
    assert logs == ["node0.log", "node1.log", "node2.log"]


def test_a_job_is_started_again_as_often_as_declared_and_its_log_goes_on(launcher, tmp_path):
    drill = replace(HEALTHY, launch=catalogue.Launch(starts=2))
    run = runner.run(drill, launcher("echo started"), tmp_path / "run")
    assert run.exit_codes == (0, 0)
    assert (tmp_path / "run" / "logs" / "job.log").read_text() == "started\n" * 2


def test_the_command_of_two_runs_is_the_same(launcher, tmp_path):
    environment = launcher("exit 0")
    commands = {runner.run(HEALTHY, environment, tmp_path / name).command for name in ("one", "two")}
    assert len(commands) == 1
    assert "--rdzv-endpoint=127.0.0.1:$PORT" in commands.pop()


def test_ranks_keep_what_they_compile(launcher, tmp_path, monkeypatch):
    monkeypatch.setenv("MBRIDGE_RESILIENCY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    runner.run(HEALTHY, launcher("env > environment"), tmp_path / "run")
    seen = (tmp_path / "run" / "environment").read_text().splitlines()
    assert f"PYTHONPYCACHEPREFIX={tmp_path / 'cache' / 'pycache'}" in seen
    assert not [line for line in seen if line.startswith("PYTHONDONTWRITEBYTECODE")]


def test_the_launcher_does_not_take_itself_for_a_part_of_the_users_job(launcher, tmp_path, monkeypatch):
    for name in ("SLURM_JOB_ID", "PET_NNODES", "RANK", "FT_RANK_MONITOR_IPC_SOCKET", "TORCHELASTIC_RUN_ID"):
        monkeypatch.setenv(name, "1")
    runner.run(HEALTHY, launcher("env > environment"), tmp_path / "run")
    seen = (tmp_path / "run" / "environment").read_text().splitlines()
    assert [line for line in seen if line.startswith(processes.MARK)]
    assert not [line for line in seen if line.startswith(("SLURM_", "PET_", "RANK", "FT_", "TORCHELASTIC_"))]


def test_nothing_that_the_logs_can_repeat_tells_of_the_fault(launcher, tmp_path):
    drill = catalogue.find("hang-stopped")
    run = runner.run(drill, launcher('echo "$@"; pwd -P > cwd'), tmp_path / "run")
    assert "stopped" not in run.command and "fault" not in run.command
    assert "-m mbridge_resiliency.drills.train" in run.command


def test_the_job_is_read_as_it_was_written(tmp_path):
    for drill in catalogue.DRILLS.values():
        drill.job.write(tmp_path)
        assert Job.read(tmp_path) == drill.job


def test_what_a_killed_drill_left_is_ended_by_the_next(launcher, tmp_path):
    owner = subprocess.Popen(["true"])
    owner.wait()
    left = subprocess.Popen(["sleep", "60"], env={processes.MARK: f"{owner.pid}-0/0"})
    mine = subprocess.Popen(["sleep", "60"], env={processes.MARK: f"{os.getpid()}-0/0"})
    try:
        runner.run(HEALTHY, launcher("exit 0"), tmp_path / "run")
        assert left.wait(timeout=10) == -9
        assert mine.poll() is None
    finally:
        mine.kill()
        mine.wait()


def test_unmarked_processes_are_left_alone():
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], env={**os.environ})
    try:
        assert processes.end("no-such-run") == []
        assert sleeper.poll() is None
        assert Path(f"/proc/{sleeper.pid}").exists()
    finally:
        sleeper.kill()
        sleeper.wait()
