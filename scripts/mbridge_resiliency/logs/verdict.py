# SPDX-License-Identifier: Apache-2.0
"""From cycles to the answer: incidents, features, outcome, what to do next. Pure functions of the job."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from . import causes
from .causes import Cause
from .cycles import Cycle, Job, Timeouts
from .events import Event

#: Kinds that only this software's world prints; others (tracebacks, resets) are in any log.
RECOGNISED_BY = frozenset(
    "ft_initializing ft_initialized ft_timeouts_loaded ft_closed loop_started iteration saving saved saved_local "
    "loading loaded from_scratch load_failed planned_exit training_done pretrain_failed bad_result launcher_started "
    "cycle_event restarting workers_succeeded launcher_signalled launcher_exit no_progress_stop overdue "
    "heartbeat_missing no_monitor worker_failed root_cause time_limit preempted requeued job_node_lost node_lost "
    "slurm_signalled".split()
)

#: Kinds that rank 0 prints, which tells of saves; the last rank tells of iterations.
_RANK_0 = ("ft_initializing", "loop_started", "saving", "saved", "loaded", "from_scratch")
_LOGS_END = (
    "The logs end while the job runs: it still runs, was killed from outside without a word, "
    "or the logs are incomplete."
)
_LOAD = (
    "Set checkpoint.load to the folder of checkpoint.save, and look at what the newest checkpoint is before "
    "resubmitting: the restart threw the saved work away."
)
_TURN_ON = (
    "(check_launch.py job.sbatch train.py; references/fault-tolerance.md); without it the next hang takes the whole "
    "allocation again."
)
_BY_SOMEBODY = "Somebody or something stopped the job; these logs do not say why."
_ADD_WARMUP = "Add warmup to --ft-rank-section-timeouts (setup:600,step:180,checkpointing:420,warmup:600)."
_ADD_RESTARTS = "Give ft_launcher --max-restarts=3: with 0, its default, a detected failure ends the job."
_ADD_NODE = (
    "Add a spare node (--nnodes=MIN:MAX) or a launcher that replaces a lost one: a restart waits until enough nodes "
    "have joined."
)
#: Causes that fault tolerance would have detected or restarted after.
_RESTARTABLE = frozenset({"hang-in-section", "hang-out-of-section", "collective-timeout", "rank-killed", "node-lost"})
_UNSEEN_HANG = (
    "No iteration was complete since the start: it may have hung in the first one, "
    "which is not detected without a 'warmup' section."
)


@dataclass(frozen=True)
class Incident:
    """A failure, and what came of it.

    Attributes:
        cause: why.
        run: which run of the job (requeues); 0-based.
        cycle: the launcher's cycle that it ended; 0-based.
        fault_at: when work stopped, where that can be told (hangs: the section's opening).
        detected_at: when the monitor or the launcher noticed.
        restarted_at: when the next cycle's workers had started.
        resumed_at: when the next cycle's first iteration was complete.
        last_iteration: the last complete one before.
        resumed_from: the checkpoint's iteration; 0 is from random weights; None if not told.
        lost_iterations: complete ones whose work was thrown away, None if not told.
        recovered: training went on in a later cycle.
        after_training: training had been done before.
        from_scratch: it went on from random weights although a checkpoint had been saved.
    """

    cause: Cause
    run: int
    cycle: int
    fault_at: datetime | None
    detected_at: datetime | None
    restarted_at: datetime | None = None
    resumed_at: datetime | None = None
    last_iteration: int | None = None
    resumed_from: int | None = None
    lost_iterations: int | None = None
    recovered: bool = False
    after_training: bool = False
    from_scratch: bool = False

    def seconds(self) -> dict[str, float | None]:
        """The lengths of its phases, in seconds."""
        return {
            "to_detect": _between(self.fault_at, self.detected_at),
            "to_restart": _between(self.detected_at, self.restarted_at),
            "to_resume": _between(self.detected_at, self.resumed_at),
        }


@dataclass(frozen=True)
class FaultTolerance:
    """What the logs tell of the feature.

    Attributes:
        state: active, inactive or unknown.
        why: in one sentence.
        event: the line that shows it.
        configured: the training job asked for it.
        timeouts: those in force last.
        timeouts_from: "ft_state.json" where learned ones were loaded, else "launcher".
        gaps: what is not watched although it is active.
    """

    state: str
    why: str
    event: Event | None = None
    configured: bool = False
    timeouts: Timeouts | None = None
    timeouts_from: str | None = None
    gaps: tuple[str, ...] = ()


@dataclass(frozen=True)
class Action:
    """What to do next.

    Attributes:
        resubmit: True, False, or None where the logs do not decide it.
        reason: why, in one sentence.
        exclude_nodes: nodes to leave out; only proven ones.
        first: what to change before, as one sentence.
        command: text to paste; it is never run.
    """

    resubmit: bool | None
    reason: str
    exclude_nodes: tuple[str, ...] = ()
    first: str = ""
    command: str = ""


@dataclass(frozen=True)
class Verdict:
    """The answer.

    Attributes:
        outcome: finished, failed, stopped_on_purpose, cut_off or unknown.
        event: the line that shows the outcome.
        cause: the one that ended the job or, where it recovered, that of the last incident.
        recovered: the cause was overcome.
        requeues: how often the job was started again as a whole.
        restarts_used: by the launcher, in the last run.
        restarts_exhausted: the last failure found no restart left.
        last_iteration, last_saved_iteration, resumed_from: at the end.
        lost_iterations: complete ones whose work was or will be thrown away.
        train_iters: the target.
        restarted_from_scratch: a restart began from random weights although a checkpoint had been saved.
    """

    outcome: str
    event: Event | None
    cause: Cause | None
    recovered: bool
    requeues: int
    restarts_used: int
    restarts_exhausted: bool
    last_iteration: int | None
    last_saved_iteration: int | None
    resumed_from: int | None
    lost_iterations: int | None
    train_iters: int | None
    restarted_from_scratch: bool
    action: Action
    incidents: tuple[Incident, ...] = field(default=())
    fault_tolerance: FaultTolerance = field(default=FaultTolerance("unknown", ""))


def judge(job: Job) -> Verdict:
    """The verdict over all cycles."""
    incidents = tuple(_incidents(job))
    feature = fault_tolerance(job)
    last = job.cycles[-1]
    outcome, event = _outcome(job, last)
    final = incidents[-1] if incidents else None
    cause = final.cause if final else None
    recovered = bool(final and final.recovered)
    stop = last.first("no_progress_stop") or next(
        (e for e in last.of("launcher_exit") if e.fields.get("reason") == "no_progress"), None
    )
    if stop and cause and cause.id == "checkpoint-load-failed":
        why = f"{cause.why} Restarts failed at it again, so NVRx gave up."
        cause = replace(cause, why=why, evidence=(*cause.evidence, stop))
    elif stop:
        why = "Restarts did not get past the last checkpoint, so NVRx gave up."
        if cause:
            why += f" The last cycle ended by {cause.id}: {cause.why}"
        cause = Cause(
            "no-progress",
            stop,
            why,
            rank=cause.rank if cause else None,
            node=cause.node if cause else None,
            evidence=tuple(last.of("no_progress_cycle")[-2:]),
        )
        recovered = False
    if outcome == "cut_off" and (cause is None or recovered):
        cause, recovered = Cause("unknown", last.events[-1], _LOGS_END), False
    if outcome == "cut_off" and cause and _unseen_hang(last, feature):
        cause = replace(cause, why=f"{cause.why} {_UNSEEN_HANG}")
    waited = _seconds_in_rendezvous(last)
    if outcome == "cut_off" and cause and waited is not None:
        why = f"{cause.why} The restart never came up: {waited:.0f} s in the rendezvous until the job was ended."
        cause = replace(cause, why=why)
    iterations = [c.last_iteration for c in job.cycles if c.last_iteration is not None]
    saved = next((event.number("iteration") for event in reversed(job.all("saved"))), None)
    resumed = [c.resumed_from for c in job.cycles if c.resumed_from is not None or c.iterations]
    target = [event.number("train_iters") for event in job.all("iteration")]
    verdict = Verdict(
        outcome=outcome,
        event=event,
        cause=cause,
        recovered=recovered,
        requeues=last.run,
        restarts_used=last.index,
        restarts_exhausted=outcome == "failed" and not stop and _exhausted(job, last),
        last_iteration=iterations[-1] if iterations else None,
        last_saved_iteration=saved,
        resumed_from=resumed[-1] if resumed else None,
        lost_iterations=_lost(job, outcome, saved),
        train_iters=target[-1] if target else None,
        restarted_from_scratch=any(_from_scratch(job, position) for position in range(1, len(job.cycles))),
        action=Action(None, ""),
        incidents=incidents,
        fault_tolerance=feature,
    )
    return replace(verdict, action=_action(job, verdict))


def _unseen_hang(last: Cycle, feature: FaultTolerance) -> bool:
    """It may hang where nothing watches: in the first iteration, without a warmup section."""
    watched = feature.timeouts is None or "warmup" in feature.timeouts.sections
    return not watched and bool(last.of("loop_started")) and not last.iterations


def _seconds_in_rendezvous(last: Cycle) -> float | None:
    """How long the last restart waited for nodes until the job was ended; None if it came up or nothing ended it."""
    began = next((e.time for e in reversed(last.of("restarting")) if e.time), None)
    ended = last.of("time_limit", "preempted", "slurm_signalled", "launcher_signalled")
    end = next((e.time for e in ended if e.time), None)
    return (end - began).total_seconds() if began and end and end > began else None


def _incidents(job: Job) -> list[Incident]:
    found = []
    for position, cycle in enumerate(job.cycles):
        following = job.cycles[position + 1] if position + 1 < len(job.cycles) else None
        cause = causes.find(job, cycle)
        if cause is None and following and following.run == cycle.run:
            cause = Cause("unknown", following.events[0], "The ranks were started again; these logs do not show why.")
        if cause is None or (cycle.of("planned_exit") and cause.id in ("cancelled", "unknown")):
            continue
        found.append(_incident(cycle, cause, following, following is not None and _from_scratch(job, position + 1)))
    return found


def _from_scratch(job: Job, position: int) -> bool:
    """The cycle began at iteration 0 although a checkpoint had been saved.

    Without a line that tells where it began: its first iteration comes before every one saved so far, in a job whose
    first cycle began at 0.
    """
    before, cycle = job.cycles[:position], job.cycles[position]
    saved = [event.number("iteration") or 0 for earlier in before for event in earlier.of("saved")]
    if not any(saved):
        return False
    if cycle.resumed_from is not None:
        return cycle.resumed_from == 0
    begun = [event.number("iteration") or 0 for earlier in before for event in earlier.of("saving")]
    first = cycle.iterations[0].number("iteration") if cycle.iterations else None
    return first is not None and before[0].resumed_from == 0 and first <= min(saved + begun)


def _incident(cycle: Cycle, cause: Cause, following: Cycle | None, from_scratch: bool) -> Incident:
    detected = _detected_at(cycle, cause)
    elapsed = [e for e in cycle.of("overdue") if e.time]
    fault_at = min((_ago(e) for e in elapsed), default=None) if cause.id.startswith(("hang", "learned")) else None
    incident = Incident(
        cause,
        cycle.run,
        cycle.index,
        fault_at,
        detected,
        last_iteration=cycle.last_iteration,
        after_training=bool(cycle.of("training_done")),
    )
    if following is None:
        return incident
    resumed_from = following.resumed_from
    reached = cycle.reached
    lost = None if resumed_from is None or reached is None else max(reached - resumed_from, 0)
    return replace(
        incident,
        restarted_at=following.started_at,
        resumed_at=following.training_at,
        resumed_from=resumed_from,
        lost_iterations=lost,
        recovered=bool(following.iterations or following.of("training_done")),
        from_scratch=from_scratch,
    )


def _detected_at(cycle: Cycle, cause: Cause) -> datetime | None:
    noticed = [e for e in cycle.of("overdue", "heartbeat_missing", "worker_failed", "no_monitor") if e.time]
    noticed += [e for e in cycle.of("cycle_event") if e.time and e.fields["event"] == "failure_detected"]
    return min((e.time for e in noticed if e.time), default=cause.event.time or cause.event.near)


def _ago(event: Event) -> datetime:
    assert event.time is not None
    return event.time - timedelta(seconds=event.seconds("elapsed") or 0.0)


def _between(start: datetime | None, end: datetime | None) -> float | None:
    """Seconds; None if a time is not told, or if the clocks of two nodes contradict each other."""
    return round((end - start).total_seconds(), 3) if start and end and end >= start else None


def _lost(job: Job, outcome: str, saved: int | None) -> int | None:
    """Complete iterations whose work was thrown away by restarts, or will be by the next start; None if not told."""
    if not job.all("iteration"):
        return None
    lost, reached = 0, None
    for cycle in job.cycles:
        if cycle.resumed_from is None and cycle.iterations and reached is not None:
            return None
        if cycle.resumed_from is not None and reached is not None:
            lost += max(reached - cycle.resumed_from, 0)
        if cycle.resumed_from is not None or cycle.events_of_training:
            reached = cycle.reached
            if reached is None:
                return None
    if outcome not in ("finished", "stopped_on_purpose"):
        if reached is None or not job.all(*_RANK_0):
            return None
        lost += max(reached - (saved or job.cycles[-1].resumed_from or 0), 0)
    return lost


def _exhausted(job: Job, last: Cycle) -> bool:
    return bool(last.of("worker_failed", "overdue")) and bool(job.all("launcher_started")) and not last.of("restarting")


def _outcome(job: Job, last: Cycle) -> tuple[str, Event | None]:
    """The outcome of the last run, and the line that shows it."""
    done = last.first("training_done")
    exits = last.of("launcher_exit")
    failed = next((e for e in exits if causes.is_failure(e)), None)
    planned = last.first("planned_exit")
    if done:
        return "finished", done
    if planned:
        return "stopped_on_purpose", planned
    unloadable = last.first("load_failed")
    if unloadable:
        return "failed", unloadable
    killed = last.first("time_limit", "preempted", "job_node_lost", "requeued")
    if killed or (last.of("launcher_signalled") and failed):
        return "cut_off", killed or last.first("launcher_signalled")
    if failed or last.of("root_cause", "no_progress_stop"):
        return "failed", failed or last.first("root_cause", "no_progress_stop")
    graceful = next(iter(exits), None) or last.first("workers_succeeded")
    if graceful:
        if graceful.signature.fact.endswith("exited-gracefully"):
            return "stopped_on_purpose", graceful
        return _ended_with_zero(last, graceful)
    if last.of("no_monitor"):
        return "failed", last.first("no_monitor")
    if last.of("worker_failed") and not job.all("launcher_started"):
        return "failed", last.first("worker_failed")
    if last.of("step_killed", "node_lost"):
        return "cut_off", last.first("step_killed", "node_lost")
    if last.of("iteration", "loop_started", "ft_initializing", "cycle_event", "launcher_started"):
        return "cut_off", last.events[-1]
    return "unknown", None


def _ended_with_zero(last: Cycle, event: Event) -> tuple[str, Event]:
    """Every rank exited with 0 and nothing says that training is done: compare with the target."""
    target = [e.number("train_iters") for e in last.iterations]
    if target and last.last_iteration is not None and last.last_iteration >= (target[-1] or 0):
        return "finished", event
    return "unknown", event


def fault_tolerance(job: Job) -> FaultTolerance:
    """Was hang detection on, and with which timeouts?"""
    missing = next(iter(job.all("no_monitor")), None)
    if missing:
        return FaultTolerance("inactive", "Configured, but the job was not started by ft_launcher.", missing, True)
    initialized = job.all("ft_initialized")
    if initialized:
        event = initialized[-1]
        timeouts = Timeouts.parse(event.fields["timeouts"])
        loaded = [e for e in job.all("ft_timeouts_loaded")]
        origin = "ft_state.json" if loaded else "launcher"
        if timeouts is None:
            return FaultTolerance("unknown", "The client started; its timeouts could not be read.", event, True)
        if not any(timeouts.sections.values()):
            return FaultTolerance(
                "inactive",
                "The client runs, but the launcher has no section timeouts: hangs are not detected.",
                event,
                True,
                timeouts,
                origin,
            )
        return FaultTolerance(
            "active",
            "The client is connected to the rank monitors.",
            event,
            True,
            timeouts,
            origin,
            (*_gaps(timeouts), *_saved_for_later(job)),
        )
    began = next(iter(job.all("ft_initializing")), None)
    if began:
        return FaultTolerance("unknown", "The client began to start; no line says that it did.", began, True)
    rank_0 = next(iter([*job.all("loop_started"), *job.all("saving", "from_scratch", "loaded")]), None)
    if rank_0:
        return FaultTolerance("inactive", "Rank 0 trains and never started the client: not configured.", rank_0)
    return FaultTolerance("unknown", "No line of rank 0 is in these logs.")


def _gaps(timeouts: Timeouts) -> tuple[str, ...]:
    gaps = []
    if "warmup" not in timeouts.sections:
        gaps.append("no 'warmup' section: a hang in the first iteration is not detected")
    if timeouts.out_of_section is None:
        gaps.append("no out-of-section timeout: a hang between sections is not detected")
    gaps += [
        f"no timeout for section '{name}': a hang there is not detected"
        for name in ("setup", "step", "checkpointing")
        if timeouts.sections.get(name) is None
    ]
    return tuple(gaps)


def _saved_for_later(job: Job) -> tuple[str, ...]:
    """Learned timeouts that the next run will load, where they are too small for it."""
    saved = next(reversed(job.all("ft_timeouts_saved")), None)
    timeouts = Timeouts.parse(saved.fields["timeouts"]) if saved else None
    if saved is None or timeouts is None:
        return ()
    small = {name: timeouts.sections.get(name) for name in sorted(timeouts.learned)}
    told = [f"{name} {s:g} s" for name, s in small.items() if s and s < causes.SMALLEST_SENSIBLE_TIMEOUT_SECONDS]
    if not told:
        return ()
    return (f"{saved.fields['path']} holds small learned timeouts ({', '.join(told)}); the next run loads them",)


#: cause -> (resubmit, reason, what to change first)
_ADVICE: dict[str, tuple[bool | None, str, str]] = {
    "hang-in-section": (True, "A hang often does not come back; if it does at the same place, it is the program.", ""),
    "hang-out-of-section": (
        True,
        "A hang often does not come back; if it does at the same place, it is the program.",
        "",
    ),
    "collective-timeout": (
        True,
        "A hang often does not come back; if it does at the same collective, it is the program or the network.",
        "",
    ),
    "rank-killed": (True, "A killed process is no reason not to go on.", ""),
    "rank-exception": (None, "Whether it happens again depends on the exception.", "Read the exception."),
    "rank-exited-zero": (
        None,
        "A rank left on its own with exit code 0; it may do so again.",
        "Find out why it left: its last lines, sys.exit() in user code.",
    ),
    "node-lost": (True, "The other nodes are fine.", ""),
    "heartbeat-timeout-without-heartbeats": (
        False,
        "The same command is killed after the same time again.",
        "Remove --ft-initial-rank-heartbeat-timeout and --ft-rank-heartbeat-timeout from the command line or the YAML "
        "file; with FaultTolerancePlugin pass None for both (left out they are 1800 and 300). Use "
        "--ft-rank-section-timeouts.",
    ),
    "calc-timeouts-without-sections": (
        False,
        "The same error comes back at the same place.",
        "Give the launcher --ft-rank-section-timeouts=setup:600,step:180,checkpointing:420,warmup:600, or set "
        "calc_ft_timeouts=False.",
    ),
    "started-without-ft-launcher": (
        False,
        "Every start fails at the same place.",
        "Start with ft_launcher instead of torchrun, or set enable_ft_package=False.",
    ),
    "learned-timeout-too-small": (
        False,
        "Every start is killed by the same learned timeout.",
        "Move the file with the learned timeouts aside (ask the owner of the run).",
    ),
    "no-progress": (
        False,
        "NVRx saw no new checkpoint over several restarts.",
        "Fix what the incidents name, or save more often than it fails.",
    ),
    "time-limit": (True, "The time was used up; the rest remains to be done.", ""),
    "preempted": (True, "Nothing is wrong with the job.", ""),
    "cancelled": (None, _BY_SOMEBODY, ""),
    "out-of-memory": (False, "The same memory runs out again.", "Lower the memory need, or give the job more."),
    "nan-or-inf": (
        None,
        "The same data on the same weights gives the same result, unless the GPU is at fault.",
        "Look at the data and the learning rate at that iteration; try another node.",
    ),
    "checkpoint-load-failed": (
        False,
        "As it is, the same checkpoint fails again.",
        "See from the evidence whether the settings differ from those of the save or the checkpoint is damaged; if it "
        "is damaged, resume from an older one (checkpoint.ckpt_step).",
    ),
    "rerun-exit-16": (True, "Resume from the checkpoint just saved, on other GPUs.", ""),
    "rerun-exit-17": (
        None,
        "A result was wrong: resume from an earlier checkpoint (checkpoint.ckpt_step) after looking at the GPU.",
        "",
    ),
    "unknown": (None, "These logs do not tell why it ended.", ""),
}


#: A line that shows a cause -> what is wiser in its case
_ADVICE_FOR_LINE: dict[str, tuple[bool | None, str, str]] = {
    "log.bridge.checkpoint-exit-on-missing": (
        False,
        "No checkpoint was found, and the next start finds none either.",
        "Set checkpoint.load to the folder that holds the checkpoints, or let a first run begin without one "
        "(checkpoint.exit_on_missing_checkpoint=false).",
    ),
    "log.nvrx.monitor-stopped": (
        None,
        _BY_SOMEBODY,
        "To stop it in order, signal ft_launcher alone (kill -TERM with its pid), not its process group or the whole "
        "Slurm step: that stops the rank monitors too, and the ranks then fail when they report to them.",
    ),
    "log.torch.loader-worker-killed": (
        None,
        _BY_SOMEBODY,
        "Set train.exit_signal_handler_for_dataloader=true: without it the signal ends the data loader's workers, and "
        "the ranks fail before they have saved.",
    ),
}


def _action(job: Job, verdict: Verdict) -> Action:
    if verdict.outcome == "finished":
        return Action(False, "Training is complete.", first=_LOAD if verdict.restarted_from_scratch else "")
    if verdict.outcome == "stopped_on_purpose" and (verdict.cause is None or verdict.recovered):
        left = None
        if verdict.train_iters and verdict.last_iteration is not None:
            left = verdict.train_iters > verdict.last_iteration
        reason = "It stopped as asked" + (", before the last iteration." if left else ".")
        if left and _by_unknown_sender(job.cycles[-1]):
            reason = "A signal stopped it before the last iteration: resubmit if it was not stopped for good."
        return Action(
            left,
            reason,
            first=_LOAD if verdict.restarted_from_scratch else "",
            command=_start_again(job, ()) if left else "",
        )
    cause = verdict.cause
    if cause is None:
        return Action(None, "These logs do not tell how it ended.")
    shown_by = [event.signature.fact for event in (cause.event, *cause.evidence)]
    resubmit, reason, first = next((_ADVICE_FOR_LINE[f] for f in shown_by if f in _ADVICE_FOR_LINE), _ADVICE[cause.id])
    nodes = (cause.node,) if cause.id in ("node-lost", "rerun-exit-16") and cause.node else ()
    refused = [e.fields["reason"] for e in job.cycles[-1].of("launcher_exit") if "reason" in e.fields]
    if refused and resubmit is not False:
        resubmit, reason = False, f"NVRx decided that the job must not be restarted ({refused[0]})."
    if verdict.restarted_from_scratch:
        resubmit = False
        first = f"{_LOAD} {first}"
    if verdict.restarts_exhausted and job.max_restarts == 0 and resubmit and cause.id != "rerun-exit-16":
        first = _ADD_RESTARTS
    first = " ".join([first.strip(), *_further(job, verdict)]).strip()
    command = _start_again(job, nodes) if resubmit else ""
    if cause.id == "learned-timeout-too-small":
        path = job.all("ft_timeouts_loaded")[-1].fields["path"]
        command = f"mv {shlex.quote(path)} {shlex.quote(path + '.old')}"
    return Action(resubmit, reason, nodes, first, command)


def _by_unknown_sender(last: Cycle) -> bool:
    """A signal made it stop in order, and Slurm says nothing of having sent one."""
    planned = any(event.signature.fact == "log.bridge.exit-on-signal" for event in last.of("planned_exit"))
    sender = last.of("slurm_signalled", "time_limit", "preempted", "requeued", "step_killed")
    return not sender and (planned or bool(last.of("launcher_signalled")))


def _further(job: Job, verdict: Verdict) -> list[str]:
    """What the logs advise besides the cause's own advice."""
    cause, feature, last = verdict.cause, verdict.fault_tolerance, job.cycles[-1]
    advice = []
    if verdict.outcome == "cut_off" and _unseen_hang(last, feature):
        advice.append(_ADD_WARMUP)
    if verdict.outcome == "cut_off" and _seconds_in_rendezvous(last) is not None:
        advice.append(_ADD_NODE)
    if cause and (cause.id in _RESTARTABLE or cause.idle_seconds) and not job.all("overdue"):
        if feature.state == "inactive":
            advice.append(f"Turn fault tolerance on {_TURN_ON}")
        elif feature.state == "unknown" and not feature.configured:
            advice.append(f"See that fault tolerance is on {_TURN_ON}")
    return advice


def _start_again(job: Job, nodes: tuple[str, ...]) -> str:
    if job.all("slurm_signalled", "time_limit", "preempted", "requeued", "job_node_lost", "node_lost", "step_killed"):
        exclude = f"--exclude={shlex.quote(','.join(nodes))} " if nodes else ""
        return f"sbatch {exclude}YOUR_SCRIPT"
    return ""
