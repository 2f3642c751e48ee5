# SPDX-License-Identifier: Apache-2.0
"""Seconds and iterations of a run, from two sources: what the ranks told (the truth) and the launcher's lines.

The ranks tell faults, iterations, saves and resumes; the launcher and its rank monitors tell, in their own log, when
they noticed and when they started workers again. Every function is pure but those that read.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Iterable, Mapping, Sequence

Event = Mapping[str, Any]

#: What notices a fault -> the line that says so; "store" is the loss of the launchers' TCP store. Sources, in
#: nvidia-resiliency-ext: fault_tolerance/rank_monitor_server.py (the first three), fault_tolerance/launcher.py and
#: shared_utils/profiling.py.
DETECTIONS: Mapping[str, re.Pattern[str]] = {
    "section": re.compile(r"Section '(?P<section>[^']+)' has been open for [\d.]+ seconds"),
    "out-of-section": re.compile(r"Was out of section for [\d.]+ seconds"),
    "heartbeat": re.compile(r"Did not get (?:initial|subsequent) heartbeat"),
    "failure": re.compile(r"Event: failure_detected |Worker group (?:FAILED|UNHEALTHY)|Joining cluster restart"),
    "store": re.compile(r"Agent run ended with exception, e=DistNetworkError"),
}
_WORKERS_STARTED = "Event: worker_start_completed "
_LAUNCHER_LINE = re.compile(r"(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) \[[A-Z]+\] (?P<text>.*)")


@dataclass(frozen=True)
class Line:
    """A line of the launcher or a rank monitor: when (seconds since the epoch) and what."""

    at: float
    text: str


@dataclass(frozen=True)
class Detection:
    """A line that tells of a fault: when, which of DETECTIONS, and the overdue section."""

    at: float
    by: str
    section: str | None


@dataclass(frozen=True)
class Measured:
    """What one run showed. Seconds are those of its first incident; iterations are those of the whole run.

    None is absent: it did not happen, or there is no such moment.

    Attributes:
        detected_by: what noticed: a key of DETECTIONS.
        section: the section that was overdue.
        detection_seconds: from the fault to the first line of a rank monitor or the launcher that tells of it. None
            too where nothing but the options is broken: then there is no moment of a fault.
        restart_seconds: from that line until the launchers have started the workers of the cycle that resumed.
        resume_seconds: from that line until the first iteration after the resume has ended.
        cycles: how often workers were started.
        last_iteration: the last that ended.
        last_saved_iteration: the last whose checkpoint is whole.
        resumed_from: the iteration that the last cycle began from; 0 is from random weights.
        lost_iterations: iterations whose work was thrown away by a restart, or will be by the next start.
    """

    detected_by: str | None
    section: str | None
    detection_seconds: float | None
    restart_seconds: float | None
    resume_seconds: float | None
    cycles: int
    last_iteration: int | None
    last_saved_iteration: int | None
    resumed_from: int | None
    lost_iterations: int | None

    def as_dict(self) -> dict[str, Any]:
        """For JSON; seconds to a hundredth."""
        return {name: round(value, 2) if isinstance(value, float) else value for name, value in asdict(self).items()}


def read_truth(folder: Path) -> list[dict[str, Any]]:
    """What the ranks told, in order of time, each event with its rank."""
    events = []
    for path in folder.glob("rank*.jsonl"):
        rank = int(path.stem.removeprefix("rank"))
        for line in path.read_text(encoding="utf-8").splitlines():
            events.append({**json.loads(line), "rank": rank})
    return sorted(events, key=lambda event: event["at"])


def read_lines(folder: Path) -> list[Line]:
    """The launchers' and rank monitors' lines of all logs in the folder, in order of time."""
    lines = []
    for path in folder.glob("*.log"):
        lines += launcher_lines(path.read_text(encoding="utf-8", errors="replace").splitlines())
    return sorted(lines, key=lambda line: line.at)


def read_learned(ft_state: Path) -> dict[str, float]:
    """The learned timeouts (seconds) in Bridge's file, by section, or "out-of-section"; none if there is no file."""
    if not ft_state.exists():
        return {}
    timeouts = json.loads(ft_state.read_text(encoding="utf-8"))["current_timeouts"]["section"]
    learned = {section: timeouts["section"][section] for section in sorted(timeouts["calculated_sections"])}
    if timeouts["is_out_of_section_calculated"]:
        learned["out-of-section"] = timeouts["out_of_section"]
    return learned


def launcher_lines(lines: Iterable[str]) -> list[Line]:
    """The lines among these that the launcher or a rank monitor wrote. Their clock is UTC: the runner sets TZ."""
    found = []
    for line in lines:
        if match := _LAUNCHER_LINE.match(line):
            at = datetime.strptime(match["at"], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=timezone.utc)
            found.append(Line(at.timestamp(), match["text"]))
    return found


def fault(truth: Sequence[Event]) -> Event | None:
    """The moment just before the fault, as the rank that it broke told it."""
    return next(iter(_of(truth, "fault")), None)


def detections(lines: Iterable[Line]) -> list[Detection]:
    """Every line that tells of a fault, in order of time."""
    found = []
    for line in lines:
        for by, pattern in DETECTIONS.items():
            if match := pattern.search(line.text):
                found.append(Detection(line.at, by, match.groupdict().get("section")))
    return found


def measure(truth: Sequence[Event], lines: Sequence[Line]) -> Measured:
    """Measure one run.

    Args:
        truth: as from read_truth.
        lines: as from read_lines.
    """
    broken = fault(truth)
    # The launcher's clock has milliseconds: a line in the fault's own millisecond is not before it.
    since = int(broken["at"] * 1000) / 1000 if broken else 0.0
    detection = next((item for item in detections(lines) if item.at >= since), None)
    restarted_at = resumed_at = None
    if detection is not None:
        cycle = max((event["cycle"] for event in _of(truth, "started") if event["at"] <= detection.at), default=0)
        resumed_at = next((event["at"] for event in _of(truth, "iteration") if event["cycle"] > cycle), None)
        until = resumed_at or float("inf")
        restarts = [line.at for line in lines if _WORKERS_STARTED in line.text and detection.at < line.at < until]
        restarted_at = restarts[-1] if restarts else None

    def after_detection(at: float | None) -> float | None:
        return None if detection is None or at is None else at - detection.at

    return Measured(
        detected_by=detection.by if detection else None,
        section=detection.section if detection else None,
        detection_seconds=detection.at - broken["at"] if detection and broken else None,
        restart_seconds=after_detection(restarted_at),
        resume_seconds=after_detection(resumed_at),
        cycles=max(Counter(event["rank"] for event in _of(truth, "started")).values(), default=0),
        last_iteration=_last(truth, "iteration"),
        last_saved_iteration=_last(truth, "saved"),
        resumed_from=_last(truth, "resumed"),
        lost_iterations=lost_iterations(truth),
    )


def lost_iterations(truth: Sequence[Event]) -> int | None:
    """Iterations whose work was thrown away by a restart, or will be by the next start; None if none ended."""
    if not _of(truth, "iteration"):
        return None
    lost = reached = 0
    for event in truth:
        if event["event"] == "resumed":
            lost += max(reached - event["iteration"], 0)  # counted by the first rank; for the others nothing is left
            reached = event["iteration"]
        elif event["event"] == "iteration":
            reached = event["iteration"]
    return lost if _of(truth, "finished") else lost + reached - (_last(truth, "saved") or 0)


def _of(truth: Sequence[Event], event: str) -> list[Event]:
    return [item for item in truth if item["event"] == event]


def _last(truth: Sequence[Event], event: str) -> int | None:
    found = _of(truth, event)
    return found[-1]["iteration"] if found else None


def final_weights(truth: Sequence[Event]) -> set[str]:
    """The digests that the ranks had at the end; one if they agree, none if the run did not end."""
    return {event["weights"] for event in _of(truth, "finished")}
