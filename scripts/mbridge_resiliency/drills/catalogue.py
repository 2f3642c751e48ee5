# SPDX-License-Identifier: Apache-2.0
"""Every drill, declared: what is broken, how the job is launched, and what must be observed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Mapping

from .job import TRACKER, Fault, Job

#: Seconds between two looks of the rank monitor and of the launcher; upstream's defaults are 5 and 0.3.
CHECK_INTERVAL = 0.5
MONITOR_INTERVAL = 0.3

#: Small against real ones so that a drill takes a minute; the mechanism does not depend on the size.
SECTIONS: Mapping[str, float] = {"setup": 60.0, "step": 3.0, "checkpointing": 3.0, "warmup": 10.0}
OUT_OF_SECTION = 4.0


@dataclass(frozen=True)
class Launch:
    """How the job is started. Times are seconds.

    Attributes:
        program: "ft_launcher" or "torchrun".
        sections: section -> timeout; empty leaves the option out.
        out_of_section: timeout; None leaves the option out.
        heartbeats: timeouts of the first and of later heartbeats; None leaves both options out.
        max_restarts: of the whole job.
        max_no_progress_cycles: cycles without a new checkpoint; None leaves progress tracking without its file, off.
        nodes: active nodes. Both ranks run on one node, or one on each of two.
        spare_nodes: hot spares beside the active ones.
        replacement_after: start another node that long after one was lost.
        starts: how often the launchers are started: again when they have ended, as a scheduler requeues a job.
    """

    program: str = "ft_launcher"
    sections: Mapping[str, float] = field(default_factory=lambda: SECTIONS)
    out_of_section: float | None = OUT_OF_SECTION
    heartbeats: tuple[float, float] | None = None
    max_restarts: int = 2
    max_no_progress_cycles: int | None = None
    nodes: int = 1
    spare_nodes: int = 0
    replacement_after: float | None = None
    starts: int = 1

    def options(self) -> list[str]:
        """The command-line options that say this, without program, rendezvous and script."""
        nodes = f"{self.nodes}:{self.nodes + self.spare_nodes}" if self.spare_nodes else f"{self.nodes}"
        options = [f"--nnodes={nodes}", f"--nproc-per-node={2 // self.nodes}", f"--max-restarts={self.max_restarts}"]
        options.append(f"--monitor-interval={MONITOR_INTERVAL}")
        if self.program == "torchrun":
            return options
        options.append(f"--ft-workload-check-interval={CHECK_INTERVAL}")
        if self.sections:
            timeouts = ",".join(f"{section}:{seconds:g}" for section, seconds in self.sections.items())
            options.append(f"--ft-rank-section-timeouts={timeouts}")
        if self.out_of_section is not None:
            options.append(f"--ft-rank-out-of-section-timeout={self.out_of_section:g}")
        if self.heartbeats is not None:
            first, later = self.heartbeats
            options += [f"--ft-initial-rank-heartbeat-timeout={first:g}", f"--ft-rank-heartbeat-timeout={later:g}"]
        if self.max_no_progress_cycles is not None:
            options.append(f"--ft-checkpoint-iteration-file={TRACKER}")
            options.append(f"--ft-max-no-progress-cycles={self.max_no_progress_cycles}")
        return options


@dataclass(frozen=True)
class Expected:
    """What must be observed.

    Attributes:
        cause: check_logs' cause id; None if there is none. If it names or suspects ranks, the broken one is among them.
        detected_by: a key of measure.DETECTIONS, or None if nothing may notice.
        section: the section whose timeout noticed it.
        outcome: check_logs' verdict.outcome.
        cycles: how many times workers were started.
        resumed_from: the iteration that the last cycle began from; 0 is from random weights, None if it did not begin.
        final_state_equal: the final weights equal the undisturbed run's; None if the run does not get there.
        exit_code: the launcher's, on every node that was not lost; None if the drill ends the job itself.
        exit_code_at: the same for NVRx versions where it differs.
        learned: what ft_state.json holds a learned timeout for at the end.
        says: a text that the logs must have.
    """

    cause: str | None
    detected_by: str | None
    section: str | None = None
    outcome: str = "finished"
    cycles: int = 2
    resumed_from: int | None = 10
    final_state_equal: bool | None = True
    exit_code: int | None = 0
    exit_code_at: Mapping[str, int] = field(default_factory=dict)
    learned: tuple[str, ...] = ()
    says: str | None = None


@dataclass(frozen=True)
class Drill:
    """One fault or misconfiguration, one job, and what must be observed.

    Attributes:
        name: as on the command line.
        title: one line.
        broken: what is broken, and what follows, in a sentence or two.
        expected: see Expected.
        job: the training job, with its fault.
        launch: how it is started.
        ft_state: content of an ft_state.json that lies in the checkpoint folder before the start.
        watch_seconds: end the job that long after the fault: for what must not be noticed.
        feature: the feature that it proves.
    """

    name: str
    title: str
    broken: str
    expected: Expected
    job: Job = Job()
    launch: Launch = Launch()
    ft_state: Mapping[str, Any] | None = None
    watch_seconds: float | None = None
    feature: str = "fault-tolerance"

    @property
    def configured(self) -> dict[str, Any]:
        """The settings that the measured values belong to, in seconds and iterations."""
        return {
            "timeout": self.timeout,
            "check_interval": CHECK_INTERVAL,
            "monitor_interval": MONITOR_INTERVAL,
            "section_timeouts": dict(self.launch.sections),
            "out_of_section_timeout": self.launch.out_of_section,
            "heartbeat_timeouts": list(self.launch.heartbeats) if self.launch.heartbeats else None,
            "max_restarts": self.launch.max_restarts,
            "max_no_progress_cycles": self.launch.max_no_progress_cycles,
            "nodes": self.launch.nodes,
            "spare_nodes": self.launch.spare_nodes,
            "starts": self.launch.starts,
            "iterations": self.job.iterations,
            "save_interval": self.job.save_interval,
        }

    @property
    def timeout(self) -> float | None:
        """The configured timeout (seconds) that must notice the fault; None where no timeout does."""
        if self.expected.detected_by == "section" and self.ft_state is None:
            return self.launch.sections[self.expected.section]
        if self.expected.detected_by == "out-of-section":
            return self.launch.out_of_section
        return None


def _job(
    kind: str, rank: int = 1, iteration: int = 17, where: str = "step", every_cycle: bool = False, **settings: Any
) -> Job:
    return Job(fault=Fault(kind, rank, iteration, where, every_cycle), **settings)


_HANG = Expected(cause="hang-in-section", detected_by="section", section="step")

_ALL = (
    Drill(
        name="healthy",
        title="nothing is broken",
        broken="Nothing: the run that every other one is compared with, on the real launcher.",
        expected=Expected(cause=None, detected_by=None, cycles=1, resumed_from=0),
    ),
    Drill(
        name="hang-stopped",
        title="a rank stops in a step",
        broken="Rank 1 is stopped (SIGSTOP) between forward and gradient reduction; rank 0 waits for it.",
        job=_job("stopped"),
        expected=_HANG,
    ),
    Drill(
        name="hang-python",
        title="a rank waits for ever in Python",
        broken="Rank 1 waits in Python code that never returns, its threads alive; rank 0 waits for it.",
        job=_job("hang"),
        expected=_HANG,
    ),
    Drill(
        name="killed",
        title="a rank is killed",
        broken="Rank 1 gets SIGKILL, as from the kernel's out-of-memory killer.",
        job=_job("killed"),
        expected=Expected(cause="rank-killed", detected_by="failure"),
    ),
    Drill(
        name="exception",
        title="a rank raises an exception",
        broken="Rank 1 raises an I/O error in a step.",
        job=_job("exception"),
        expected=Expected(cause="rank-exception", detected_by="failure", says="Input/output error"),
    ),
    Drill(
        name="exit-zero",
        title="a rank exits with code 0",
        broken="Rank 1 leaves with code 0 in the middle of the run; only its peer's lost connection shows it.",
        job=_job("exit-zero"),
        expected=Expected(cause="rank-exited-zero", detected_by="failure"),
    ),
    Drill(
        name="hang-first-iteration",
        title="a rank hangs in the first iteration, `warmup` configured",
        broken="Rank 1 stops in iteration 1, which Bridge puts in no section: the out-of-section timeout notices.",
        job=_job("stopped", iteration=1),
        expected=Expected(cause="hang-out-of-section", detected_by="out-of-section", resumed_from=0),
    ),
    Drill(
        name="hang-first-iteration-no-warmup",
        title="a rank hangs in the first iteration, no `warmup` section",
        broken="As hang-first-iteration, but without a `warmup` section NVRx does not enforce the out-of-section "
        "timeout before the first step section: nothing notices, and the drill ends the job.",
        job=_job("stopped", iteration=1),
        launch=Launch(sections={name: seconds for name, seconds in SECTIONS.items() if name != "warmup"}),
        watch_seconds=15.0,
        expected=Expected(
            cause="unknown",
            detected_by=None,
            outcome="cut_off",
            cycles=1,
            resumed_from=0,
            final_state_equal=None,
            exit_code=None,
        ),
    ),
    Drill(
        name="hang-checkpoint",
        title="a rank hangs in a save",
        broken="Rank 1 stops inside the save of iteration 20: that checkpoint is never whole, the one before it is.",
        job=_job("stopped", iteration=20, where="checkpoint"),
        expected=replace(_HANG, section="checkpointing"),
    ),
    Drill(
        name="plugin-heartbeats",
        title="heartbeat timeouts, as FaultTolerancePlugin sets them",
        broken="Nothing but the options: 1800 s and 300 s, scaled down to 4 s and 0.7 s. Bridge sends no heartbeats, "
        "so healthy ranks are killed that long after every start.",
        job=Job(iteration_seconds=0.5, save_interval=5),
        launch=Launch(sections={}, out_of_section=None, heartbeats=(4.0, 0.7), max_restarts=1),
        expected=Expected(
            cause="heartbeat-timeout-without-heartbeats",
            detected_by="heartbeat",
            outcome="failed",
            resumed_from=5,
            final_state_equal=None,
            exit_code=1,
        ),
    ),
    Drill(
        name="calc-timeouts-no-sections",
        title="calc_ft_timeouts without section timeouts",
        broken="Nothing but the options: Bridge asks NVRx for timeouts of sections that NVRx was never told of.",
        job=Job(calc_ft_timeouts=True, save_interval=20, iterations=40),
        launch=Launch(sections={}, out_of_section=None, max_restarts=1),
        expected=Expected(
            cause="calc-timeouts-without-sections",
            detected_by="failure",
            outcome="failed",
            resumed_from=20,
            final_state_equal=None,
            exit_code=1,
            says="KeyError: 'step'",
        ),
    ),
    Drill(
        name="torchrun",
        title="torchrun instead of ft_launcher",
        broken="Nothing but the launcher: without rank monitors Bridge's set-up raises on every rank.",
        launch=Launch(program="torchrun", max_restarts=0),
        expected=Expected(
            cause="started-without-ft-launcher",
            detected_by=None,
            outcome="failed",
            cycles=1,
            resumed_from=None,
            final_state_equal=None,
            exit_code=1,
            says="RankMonitorClientError",
        ),
    ),
    Drill(
        name="stale-ft-state",
        title="a learned timeout that is too small",
        broken="Nothing but a left-over ft_state.json with setup=0.5 s: it wins over setup=60 s on the command line, "
        "and a set-up of 2 s is killed in every cycle.",
        job=Job(setup_seconds=2.0),
        launch=Launch(max_restarts=1),
        ft_state={
            "current_timeouts": {
                "section": {
                    "section": {**SECTIONS, "setup": 0.5},
                    "out_of_section": OUT_OF_SECTION,
                    "calculated_sections": ["setup"],
                    "is_out_of_section_calculated": False,
                }
            }
        },
        expected=Expected(
            cause="learned-timeout-too-small",
            detected_by="section",
            section="setup",
            outcome="failed",
            resumed_from=None,
            final_state_equal=None,
            exit_code=1,
            learned=("setup",),
        ),
    ),
    Drill(
        name="learned-timeouts",
        title="timeouts are learned",
        broken="Nothing: with calc_ft_timeouts a run from random weights learns step and checkpointing; for setup it "
        "would have to load a checkpoint, and without setup it does not learn out-of-section.",
        job=Job(calc_ft_timeouts=True, save_interval=20, iterations=20),
        expected=Expected(cause=None, detected_by=None, cycles=1, resumed_from=0, learned=("checkpointing", "step")),
    ),
    Drill(
        name="no-restarts",
        title="a rank hangs and no restart is allowed",
        broken="As hang-stopped with --max-restarts=0, the default: the hang is noticed, the rank killed, and the "
        "job is over.",
        job=_job("stopped"),
        launch=Launch(max_restarts=0),
        expected=replace(_HANG, outcome="failed", cycles=1, resumed_from=0, final_state_equal=None, exit_code=1),
    ),
    Drill(
        name="no-progress",
        title="every cycle fails before the next save",
        broken="Rank 1 raises an I/O error in iteration 17 of every cycle, and the last save is that of iteration 10. "
        "Progress tracking stops the job although a restart is left.",
        job=_job("exception", every_cycle=True),
        launch=Launch(max_no_progress_cycles=1),
        expected=Expected(
            cause="no-progress",
            detected_by="failure",
            outcome="failed",
            final_state_equal=None,
            exit_code=93,
            exit_code_at={"0.6.0": 1},
            says="No more restarts will be attempted",
        ),
    ),
    Drill(
        name="sigterm",
        title="the launcher is told to stop, and the job is started again",
        broken="The launcher gets SIGTERM while the ranks train. With Bridge's exit_signal_handler they save, all end "
        "with code 0, and a second start goes on from that iteration.",
        job=_job("sigterm", exit_signal_handler=True),
        launch=Launch(starts=2),
        expected=Expected(
            cause=None, detected_by=None, resumed_from=17, says="exiting program after receiving SIGTERM."
        ),
    ),
    Drill(
        name="sigterm-everyone",
        title="every process of the job is told to stop, the rank monitors too",
        broken="SIGTERM goes to all processes, as Slurm sends it to a job step. The rank monitors end at once, and the "
        "ranks fail in their orderly stop although Bridge's exit_signal_handler is on.",
        job=_job("sigterm-everyone", exit_signal_handler=True),
        expected=Expected(
            cause="cancelled",
            detected_by=None,
            outcome="cut_off",
            cycles=1,
            resumed_from=0,
            final_state_equal=None,
            exit_code=1,
        ),
    ),
    Drill(
        name="node-lost-replaced",
        title="a node is lost and replaced",
        broken="Every process of the second node is killed; another node joins 5 s later. "
        "Launchers on one machine stand for the nodes.",
        job=_job("node-lost"),
        launch=Launch(nodes=2, replacement_after=5.0),
        expected=Expected(cause="node-lost", detected_by="failure"),
    ),
    Drill(
        name="node-lost-hot-spare",
        title="a node is lost and a hot spare takes over",
        broken="Every process of the second node is killed; a third node has been waiting. "
        "Launchers on one machine stand for the nodes.",
        job=_job("node-lost"),
        launch=Launch(nodes=2, spare_nodes=1),
        expected=Expected(cause="node-lost", detected_by="failure"),
    ),
    Drill(
        name="node-lost-store-host",
        title="the node that keeps the launchers' store is lost",
        broken="Every process of the first node is killed, which kept the launchers' store: the other launcher cannot "
        "restart without it and ends. "
        "Launchers on one machine stand for the nodes.",
        job=_job("node-lost", rank=0),
        launch=Launch(nodes=2),
        expected=Expected(
            cause="node-lost",
            detected_by="store",
            outcome="failed",
            cycles=1,
            resumed_from=0,
            final_state_equal=None,
            exit_code=1,
            says="DistNetworkError",
        ),
    ),
)

DRILLS: Mapping[str, Drill] = {drill.name: drill for drill in _ALL}
#: Short names for the command line.
ALIASES: Mapping[str, str] = {"hang": "hang-stopped"}


def find(name: str) -> Drill:
    """The drill of this name or alias. Raises KeyError."""
    return DRILLS[ALIASES.get(name, name)]
