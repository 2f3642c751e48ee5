# SPDX-License-Identifier: Apache-2.0
"""Runs one drill: starts the real launcher on each node, replaces lost ones, and ends every process it started."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .. import cli
from . import measure, processes
from .catalogue import Drill, Launch
from .environment import Environment
from .job import CHECKPOINTS, FT_STATE, LOGS, TRUTH, Job

_SCRIPTS = Path(__file__).resolve().parents[2]
_TRAIN = "mbridge_resiliency.drills.train"
_LIMIT_SECONDS = 240.0
_POLL_SECONDS = 0.1
_JOIN_LIMIT_SECONDS = 60.0
#: The launcher's line when it reaches the rendezvous. Source: fault_tolerance/ft_rendezvous_barrier.py.
_JOINS = b"attempts to join the next round of the rendezvous"
#: Variables that would make the launcher take the drill for a part of a job that the user is in.
_NOT_INHERITED = ("SLURM_", "PET_", "FT_", "NVRX_", "TORCHELASTIC_", "CROSS_SLURM_", "TORCH_")
_RANK_VARIABLES = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT"}


@dataclass(frozen=True)
class Run:
    """What a finished run left.

    Attributes:
        folder: with logs/, truth/ and checkpoints/.
        command: the launcher's command line on the first node, environment's path and port number left out.
        seconds: wall time, from the first launcher's start to the last one's end.
        exit_codes: one for each launcher in order of start; negative is the signal that ended it; None if the drill
            ended it, because the watch was over or the time limit reached.
        timed_out: the time limit was reached.
        orphans: processes that outlived their launcher and were ended by the drill.
    """

    folder: Path
    command: str
    seconds: float
    exit_codes: tuple[int | None, ...]
    timed_out: bool
    orphans: int


@dataclass
class _Node:
    process: subprocess.Popen[bytes]
    mark: str
    group_rank: int
    replaced: bool = False


def run(drill: Drill, environment: Environment, folder: Path, *, limit_seconds: float = _LIMIT_SECONDS) -> Run:
    """Run the drill in the folder, which must not exist yet.

    Args:
        drill: what to run.
        environment: with what; Bridge's callbacks are driven if it has Bridge, NVRx alone otherwise.
        folder: becomes every process's working directory.
        limit_seconds: when to end a run that does not end by itself.

    Raises:
        FileExistsError: the folder exists.
    """
    processes.end_abandoned()
    for part in (LOGS, TRUTH, CHECKPOINTS):
        (folder / part).mkdir(parents=True)
    replace(drill.job, bridge=environment.bridge).write(folder)
    if drill.ft_state is not None:
        (folder / FT_STATE).write_text(json.dumps(drill.ft_state), encoding="utf-8")
    with _Launchers(drill.launch, environment, folder) as launchers:
        timed_out = _watch(drill, launchers, folder, limit_seconds)
    return Run(
        folder=folder,
        command=launchers.command,
        seconds=launchers.seconds,
        exit_codes=tuple(launchers.exit_codes),
        timed_out=timed_out,
        orphans=launchers.orphans,
    )


def _watch(drill: Drill, launchers: _Launchers, folder: Path, limit_seconds: float) -> bool:
    """Wait until the job is over. Returns True if the limit was reached."""
    started = time.monotonic()
    starts = 1
    lost_at: float | None = None
    while time.monotonic() - started < limit_seconds:
        if launchers.ended():
            if starts == drill.launch.starts:
                return False
            launchers.start()
            starts += 1
        if drill.launch.replacement_after is not None and launchers.lost():
            lost_at = lost_at or time.monotonic()
            if time.monotonic() - lost_at >= drill.launch.replacement_after:
                launchers.replace_lost()
        if drill.watch_seconds is not None:
            fault = measure.fault(measure.read_truth(folder / TRUTH))
            if fault is not None and time.time() - fault["at"] >= drill.watch_seconds:
                return False
        time.sleep(_POLL_SECONDS)
    return True


class _Launchers:
    """The launchers of one run, one a node; at the end, however it comes, no process of the run is left."""

    def __init__(self, launch: Launch, environment: Environment, folder: Path) -> None:
        self._launch = launch
        self._environment = environment
        self._folder = folder
        self._id = processes.new_run()
        self._port = _free_port()
        self._nodes: list[_Node] = []
        self._sockets = ""
        self.command = " ".join([launch.program, *self._arguments("$PORT")])
        self.seconds = 0.0
        self.exit_codes: list[int | None] = []
        self.orphans = 0

    def __enter__(self) -> _Launchers:
        self._started = time.monotonic()
        self._sockets = tempfile.mkdtemp(prefix="drill-")
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: Any) -> None:
        self.seconds = time.monotonic() - self._started
        self.exit_codes = [node.process.poll() for node in self._nodes]
        self.orphans = len(processes.marked(self._id)) if self.ended() else 0
        processes.end(self._id)
        for node in self._nodes:
            node.process.wait()
        shutil.rmtree(self._sockets, ignore_errors=True)

    def start(self) -> None:
        """Start a launcher for each node."""
        for group_rank in range(self._launch.nodes + self._launch.spare_nodes):
            self._start(group_rank)
            self._wait_until_it_joins()

    def ended(self) -> bool:
        """True if every launcher has ended and none is to be replaced."""
        waiting = self._launch.replacement_after is not None and bool(self.lost())
        return not waiting and all(node.process.poll() is not None for node in self._nodes)

    def lost(self) -> list[_Node]:
        """Nodes whose launcher was killed and that no other has replaced yet."""
        return [node for node in self._nodes if node.process.poll() == -signal.SIGKILL and not node.replaced]

    def replace_lost(self) -> None:
        """Start a launcher in the place of each lost one."""
        for node in self.lost():
            node.replaced = True
            self._start(node.group_rank)

    def _start(self, group_rank: int) -> None:
        index = len(self._nodes)
        mark = f"{self._id}/{index}"
        variables = _variables() | {processes.MARK: mark, "TMPDIR": self._sockets}
        if self._launch.nodes > 1:  # on one machine, which the launcher refuses unless told
            variables |= {"NVRX_ENABLE_MULTI_LAUNCHERS_PER_NODE": "1", "GROUP_RANK": str(group_rank)}
        with self._log(index).open("ab") as output:
            process = subprocess.Popen(
                [self._environment.program(self._launch.program), *self._arguments(str(self._port))],
                cwd=self._folder,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches the drill alone, which ends them in order
            )
        self._nodes.append(_Node(process, mark, group_rank))

    def _wait_until_it_joins(self) -> None:
        """Let the newest node reach the rendezvous before the next one starts.

        On one machine the first to come hosts the launchers' store, whose loss ends the whole job, and the first ones
        are active: so the node that is lost is never the first, and a spare is always the last.
        """
        if self._launch.nodes == 1:
            return
        node, log = self._nodes[-1], self._log(len(self._nodes) - 1)
        deadline = time.monotonic() + _JOIN_LIMIT_SECONDS
        while _JOINS not in log.read_bytes() and node.process.poll() is None and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)

    def _log(self, index: int) -> Path:
        return self._folder / LOGS / (f"node{index}.log" if self._launch.nodes > 1 else "job.log")

    def _arguments(self, port: str) -> list[str]:
        rendezvous = ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=job"]
        return [*self._launch.options(), *rendezvous, "-m", _TRAIN]


def undisturbed_weights(job: Job, python: Path) -> str:
    """The digest that the job's weights have at its end if nothing breaks: see model.undisturbed.

    Raises:
        RuntimeError: the computation failed; the message is what it printed.
    """
    with tempfile.TemporaryDirectory(prefix="drill-") as folder:
        job.write(Path(folder))
        command = [str(python), "-m", "mbridge_resiliency.drills.model"]
        done = subprocess.run(command, cwd=folder, env=_variables(), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the undisturbed run failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)["weights"]


def _variables() -> dict[str, str]:
    """The environment of every process of a drill, but for what names the run and the node."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_NOT_INHERITED) and name not in _RANK_VARIABLES
    }
    inherited.pop("PYTHONDONTWRITEBYTECODE", None)  # compiling Bridge and PyTorch is most of a rank's start
    drills = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(_SCRIPTS), "TZ": "UTC"}
    return inherited | drills | {"PYTHONPYCACHEPREFIX": str(cli.cache_dir() / "pycache")}


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]
