# SPDX-License-Identifier: Apache-2.0
"""The answer as JSON (report/check_logs.schema.json) and as the few lines a person on call needs."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Iterator, Sequence

from .. import __version__
from ..cli import EXIT_FINDINGS, EXIT_NOT_MEASURED, EXIT_NOTHING
from .causes import Cause, listed
from .cycles import Cycle, Job, build
from .events import Event
from .reading import find_files
from .scan import Scanner
from .verdict import RECOGNISED_BY, Incident, Verdict, judge

SCHEMA_VERSION = 1
#: Text shows so many steps of the timeline: the first and the last ones.
MOST_STEPS_IN_TEXT = 24
_STEPS = {
    "launcher_started": "ft_launcher started",
    "ft_initialized": "fault tolerance initialised",
    "ft_timeouts_loaded": "learned timeouts loaded from {path}",
    "from_scratch": "no checkpoint found: starts from random weights",
    "loop_started": "training starts at iteration {iteration}",
    "loaded": "resumed from the checkpoint of iteration {iteration}",
    "overdue": "monitor: {section} open for {elapsed} s (timeout {timeout} s), rank killed",
    "heartbeat_missing": "monitor: no heartbeat for {timeout} s, rank killed",
    "no_monitor": "no rank monitor: not started by ft_launcher",
    "simulated_fault": "simulated fault: {fault} on rank {rank}",
    "bad_result": "{result} on rank {rank} at iteration {iteration}",
    "worker_failed": "launcher: local rank {local_rank} is the first found dead, exit code {exitcode}",
    "restarting": "launcher restarts every rank",
    "node_lost": "node {node} lost",
    "job_node_lost": "Slurm: node failure, job ended",
    "node_unhealthy": "node failed its health check",
    "no_progress_stop": "no progress over restarts: NVRx stops",
    "launcher_signalled": "launcher told to stop by signal {signal}",
    "signal_received": "rank 0 got signal {signal}",
    "time_limit": "Slurm: time limit",
    "preempted": "Slurm: preempted",
    "requeued": "Slurm: job requeued",
    "oom_killed": "kernel: killed for memory",
    "load_failed": "checkpoint could not be loaded",
    "collective_timeout": "a collective timed out",
    "loader_killed": "a signal ended a worker of the data loader",
    "planned_exit": "stopped on purpose",
    "training_done": "training done",
    "launcher_exit": "launcher ended",
}

#: Printed more than once for one thing that happened: to standard output and error, or by several handlers.
_ONCE = frozenset({"simulated_fault", "signal_received", "loader_killed"})


@dataclass(frozen=True)
class Report:
    """What was read and what follows from it.

    Attributes:
        files: names of what was read, in order.
        bytes_read: after decompression.
        notes: what could not be read, and what was left out.
        job: the cycles; None if nothing was recognised.
        verdict: None if nothing was recognised.
    """

    files: tuple[str, ...]
    bytes_read: int
    notes: tuple[str, ...]
    job: Job | None = field(repr=False)
    verdict: Verdict | None = field(repr=False)

    @property
    def exit_code(self) -> int:
        """0 nothing to report, 1 something to report, 3 nothing recognised."""
        if self.verdict is None:
            return EXIT_NOT_MEASURED
        feature = self.verdict.fault_tolerance
        quiet = (
            self.verdict.outcome in ("finished", "stopped_on_purpose")
            and self.verdict.cause is None
            and not self.verdict.restarted_from_scratch
            and not (feature.configured and feature.state == "inactive")
        )
        return EXIT_NOTHING if quiet else EXIT_FINDINGS

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data, in the form of report/check_logs.schema.json."""
        head: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "tool_version": __version__,
            "read": {"files": list(self.files), "bytes": self.bytes_read, "notes": list(self.notes)},
            "recognised": self.verdict is not None,
        }
        if self.job is None or self.verdict is None:
            return {**head, "verdict": None, "features": {}, "incidents": [], "timeline": []}
        return {
            **head,
            "verdict": _verdict(self.verdict),
            "features": {"fault_tolerance": _feature(self.verdict)},
            "incidents": [_incident(incident) for incident in self.verdict.incidents],
            "timeline": timeline(self.job),
        }

    def to_json(self) -> str:
        """The report as one JSON object."""
        return json.dumps(self.to_dict(), indent=2)

    def to_text(self) -> str:
        """The report for a person on call: outcome first, evidence last."""
        if self.job is None or self.verdict is None:
            lines = [
                f"Nothing recognised in {len(self.files)} file{'s' * (len(self.files) != 1)} "
                f"({_size(self.bytes_read)}): no line of Megatron Bridge, NVRx, torchelastic or Slurm.",
                "This says nothing about the job. Give the standard output and error of its ranks and its launcher.",
            ]
            return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])
        return "\n".join(_text(self, self.job, self.verdict))


def examine_files(paths: Sequence[Path]) -> Report:
    """Read, sort and judge."""
    files, notes = find_files(paths)
    events: list[Event] = []
    bytes_read = 0
    left_out: Counter[str] = Counter()
    for file in files:
        scanner = Scanner(file)
        events += scanner.events(notes)
        bytes_read += scanner.bytes_read
        left_out += scanner.left_out
    notes += [f"{count} further lines of kind {kind} left out" for kind, count in sorted(left_out.items())]
    names = tuple(file.name for file in files)
    if not any(event.kind in RECOGNISED_BY for event in events):
        return Report(names, bytes_read, tuple(notes), None, None)
    job = build(events)
    return Report(names, bytes_read, tuple(notes), job, judge(job))


def timeline(job: Job) -> list[dict[str, Any]]:
    """What happened, in order: faults, restarts, resumes and the end."""
    steps = []
    for cycle in job.cycles:
        for event in _notable(cycle):
            steps.append(
                {
                    "at": _iso(event.time),
                    "not_before": _iso(event.near),
                    "run": cycle.run,
                    "cycle": cycle.index,
                    "what": _STEPS.get(event.kind, "iteration {iteration}").format_map(_Words(event)),
                    "rank": None if event.kind == "worker_failed" else job.rank(event, cycle),
                    "node": job.node(event, cycle),
                    "file": event.file,
                    "line": event.line,
                }
            )
    return steps


def _notable(cycle: Cycle) -> Iterator[Event]:
    """The events that are steps of the timeline, each thing that happened once."""
    edges = {id(event) for event in (*cycle.iterations[:1], *cycle.iterations[-1:])}
    beginning_told = bool(cycle.of("loaded", "from_scratch"))
    told: set[tuple[str, ...]] = set()
    for event in cycle.events:
        once = (event.kind, *event.fields.values())
        if once in told or (event.kind == "loop_started" and beginning_told):
            continue
        if event.kind in _ONCE:
            told.add(once)
        if event.kind in _STEPS or id(event) in edges:
            yield event


class _Words(dict):  # type: ignore[type-arg]
    """Fields of a line for a step's words; what the line lacks reads as such."""

    def __init__(self, event: Event) -> None:
        super().__init__({name: (value or "").strip() for name, value in event.fields.items()})
        if event.kind == "overdue":
            self["section"] = f"section '{self['section']}'" if "section" in self else "no section"

    def __missing__(self, key: str) -> str:
        return "?"


def _iso(at: datetime | None) -> str | None:
    return at.isoformat(timespec="milliseconds") if at else None


def _evidence(event: Event | None) -> dict[str, Any] | None:
    if event is None:
        return None
    return {
        "file": event.file,
        "line": event.line,
        "text": event.text,
        "signature": event.signature.fact,
        "means": event.signature.means,
        "does_not_mean": event.signature.not_means or None,
    }


def _cause(cause: Cause) -> dict[str, Any]:
    return {
        "id": cause.id,
        "rank": cause.rank,
        "node": cause.node,
        "file": cause.event.file,
        "line": cause.event.line,
        "section": cause.section,
        "why": cause.why,
        "suspects": list(cause.suspects),
        "victims": list(cause.victims),
        "deciding": cause.deciding or None,
        "evidence": [_evidence(event) for event in (cause.event, *cause.evidence)],
    }


def _incident(incident: Incident) -> dict[str, Any]:
    cause = _cause(incident.cause)
    ranks = [incident.cause.rank] if incident.cause.rank is not None else []
    return {
        "kind": cause.pop("id"),
        "run": incident.run,
        "cycle": incident.cycle,
        "ranks": ranks,
        **{
            key: cause[key]
            for key in ("node", "section", "suspects", "victims", "why", "deciding", "file", "line", "evidence")
        },
        "fault_at": _iso(incident.fault_at),
        "detected_at": _iso(incident.detected_at),
        "restarted_at": _iso(incident.restarted_at),
        "resumed_at": _iso(incident.resumed_at),
        "seconds": incident.seconds(),
        "last_iteration": incident.last_iteration,
        "resumed_from": incident.resumed_from,
        "lost_iterations": incident.lost_iterations,
        "recovered": incident.recovered,
        "from_scratch": incident.from_scratch,
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    action = verdict.action
    return {
        "outcome": verdict.outcome,
        "shown_by": _evidence(verdict.event),
        "cause": {**_cause(verdict.cause), "recovered": verdict.recovered} if verdict.cause else None,
        "last_iteration": verdict.last_iteration,
        "last_saved_iteration": verdict.last_saved_iteration,
        "resumed_from": verdict.resumed_from,
        "lost_iterations": verdict.lost_iterations,
        "train_iters": verdict.train_iters,
        "requeues": verdict.requeues,
        "restarts": {"used": verdict.restarts_used, "exhausted": verdict.restarts_exhausted},
        "restarted_from_scratch": verdict.restarted_from_scratch,
        "action": {
            "resubmit": action.resubmit,
            "exclude_nodes": list(action.exclude_nodes),
            "reason": action.reason,
            "first": action.first or None,
            "command": action.command or None,
        },
    }


def _feature(verdict: Verdict) -> dict[str, Any]:
    feature = verdict.fault_tolerance
    timeouts = feature.timeouts
    return {
        "state": feature.state,
        "why": feature.why,
        "configured": feature.configured,
        "evidence": _evidence(feature.event),
        "timeouts": {
            "sections": timeouts.sections,
            "out_of_section": timeouts.out_of_section,
            "learned": sorted(timeouts.learned),
            "from": feature.timeouts_from,
        }
        if timeouts
        else None,
        "gaps": list(feature.gaps),
    }


def _text(report: Report, job: Job, verdict: Verdict) -> list[str]:
    lines = [_headline(verdict)]
    if verdict.restarted_from_scratch:
        lines.append("!! A restart began at ITERATION 0, from the first weights, although a checkpoint had been saved.")
    cause = verdict.cause
    if cause:
        who = f"rank {cause.rank}" if cause.rank is not None else ""
        if not who and cause.suspects:
            who = f"not proven; suspected: rank {listed(cause.suspects)}"
        who = ", ".join(part for part in (who, f"node {cause.node}" if cause.node else "") if part)
        lines.append(f"cause:   {cause.id}{' (recovered)' if verdict.recovered else ''}: {cause.why}")
        if who:
            lines.append(f"who:     {who}")
        if cause.victims:
            lines.append(f"victims: rank {listed(cause.victims)} failed because of it")
        if cause.deciding:
            lines.append(f"decides: {cause.deciding}")
    lines.append(_progress(verdict))
    lines += _feature_text(verdict)
    lines += _action_text(verdict)
    if verdict.incidents:
        lines += ["", "incidents:"]
        lines += [_incident_text(incident) for incident in verdict.incidents[-10:]]
    lines += ["", "timeline (~: not before):", *_timeline_text(timeline(job))]
    lines += ["", "evidence:", *_evidence_text(verdict)]
    lines += [f"note: {note}" for note in report.notes]
    return lines


def _headline(verdict: Verdict) -> str:
    words = {
        "finished": "FINISHED",
        "failed": "FAILED",
        "stopped_on_purpose": "STOPPED ON PURPOSE",
        "cut_off": "CUT OFF",
        "unknown": "UNKNOWN OUTCOME",
    }[verdict.outcome]
    counts = [(verdict.requeues, "requeue"), (verdict.restarts_used, "restart")]
    told = " and ".join(f"{count} {what}{'s' * (count != 1)}" for count, what in counts if count)
    spent = ", no restart left" if verdict.restarts_exhausted else ""
    return f"outcome: {words}{' after ' * bool(told)}{told}{spent}"


def _life(run: int, cycle: int) -> str:
    """Which life of the workers, with the run where the job was started more than once."""
    return f"run {run} cycle {cycle}" if run else f"cycle {cycle}"


def _beginning(iteration: int | None) -> str:
    if iteration is None:
        return "start not in these logs"
    return f"resumed from {iteration}" if iteration else "started at iteration 0"


def _progress(verdict: Verdict) -> str:
    def told(number: int | None) -> str:
        return "not in these logs" if number is None else str(number)

    target = f" of {verdict.train_iters}" if verdict.train_iters else ""
    return (
        f"where:   last iteration {told(verdict.last_iteration)}{target}, "
        f"last saved {told(verdict.last_saved_iteration)}, {_beginning(verdict.resumed_from)}, "
        f"lost {told(verdict.lost_iterations)}"
    )


def _feature_text(verdict: Verdict) -> list[str]:
    feature = verdict.fault_tolerance
    lines = [f"fault tolerance: {feature.state}. {feature.why}"]
    if feature.timeouts and feature.timeouts.sections:
        values = [f"{name} {_limit(value)}" for name, value in feature.timeouts.sections.items()]
        values.append(f"out of section {_limit(feature.timeouts.out_of_section)}")
        learned = f" (learned: {', '.join(sorted(feature.timeouts.learned))})" if feature.timeouts.learned else ""
        lines.append(f"  timeouts: {', '.join(values)}{learned}")
    return lines + [f"  gap: {gap}" for gap in feature.gaps]


def _limit(seconds: float | None) -> str:
    return "none" if seconds is None else f"{seconds:g} s"


def _action_text(verdict: Verdict) -> list[str]:
    action = verdict.action
    answer = {True: "resubmit", False: "do not resubmit", None: "undecided"}[action.resubmit]
    if verdict.outcome == "finished":
        answer = "nothing"
    lines = [f"next:    {answer}. {action.reason}"]
    if action.first:
        when = "before the next run" if verdict.outcome == "finished" else "first"
        lines.append(f"  {when}: {action.first}")
    if action.exclude_nodes:
        lines.append(f"  leave out: {', '.join(action.exclude_nodes)}")
    if action.command:
        lines.append(f"  paste: {action.command}")
    return lines


def _incident_text(incident: Incident) -> str:
    seconds = {name: value for name, value in incident.seconds().items() if value is not None}
    phases = {
        "to_detect": "detected after",
        "to_restart": "workers restarted after",
        "to_resume": "training again after",
    }
    measured = ", ".join(f"{phases[name]} {value:.1f} s" for name, value in seconds.items())
    end = "recovered" if incident.recovered else "not recovered"
    if incident.after_training and not incident.recovered:
        end = "after training was done"
    if incident.recovered and incident.resumed_from is not None:
        end += f" from iteration {incident.resumed_from}" if incident.resumed_from else ", started at iteration 0"
        if incident.lost_iterations is not None:
            end += f", {incident.lost_iterations} lost"
    section = f" in '{incident.cause.section}'" if incident.cause.section else ""
    life = _life(incident.run, incident.cycle)
    return f"  {life}: {incident.cause.id}{section}; {end}{'; ' + measured if measured else ''}"


def _timeline_text(steps: Sequence[dict[str, Any]]) -> list[str]:
    half = MOST_STEPS_IN_TEXT // 2
    shown: list[str] = []
    for position, step in enumerate(steps):
        if len(steps) > MOST_STEPS_IN_TEXT and half <= position < len(steps) - half:
            if position == half:
                shown.append(f"  ... {len(steps) - 2 * half} steps left out; --format json has them all")
            continue
        at = (step["at"] or step["not_before"] or "")[11:19]
        at = f"{'' if step['at'] else '~' * bool(at)}{at or '-'}"
        rank = f" (rank {step['rank']})" if step["rank"] is not None else ""
        shown.append(f"  {at:>9} {_life(step['run'], step['cycle'])}  {step['what']}{rank}")
    return shown


def _evidence_text(verdict: Verdict) -> list[str]:
    chosen: list[Event] = []
    if verdict.cause:
        chosen += [verdict.cause.event, *verdict.cause.evidence]
    for event in (verdict.fault_tolerance.event, verdict.event):
        if event and event not in chosen:
            chosen.append(event)
    return [f"  {event.place}: {event.text[:160]}" for event in chosen]


def _size(count: int) -> str:
    return f"{count} bytes" if count < 10_000 else f"{count / 1e6:.1f} MB"
