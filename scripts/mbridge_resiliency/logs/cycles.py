# SPDX-License-Identifier: Apache-2.0
"""From events to cycles: what happened between one start of the workers and the next."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Iterable, Sequence

from .events import Event
from .signatures import pattern, text_of

#: Where a line was printed: file and srun task. One launcher a node, so this stands for a node.
Source = tuple[str, "int | None"]
_SECONDS = r"[0-9]+(?:\.[0-9]+)?|None"
_TIMEOUT = re.compile(rf"(\w+)=({_SECONDS})")
_TIMEOUTS = re.compile(
    rf"out_of_section=({_SECONDS}), sections=\[(.*?)\], calculated_sections=(.*?), is_out_of_section_calculated"
)


@dataclass(frozen=True)
class Timeouts:
    """Section timeouts in force, in seconds; None is no limit.

    Attributes:
        sections: by section name.
        out_of_section: between sections.
        learned: the sections whose value was learned from earlier runs.
    """

    sections: dict[str, float | None]
    out_of_section: float | None
    learned: frozenset[str]

    @classmethod
    def parse(cls, text: str) -> "Timeouts | None":
        """From the words that Bridge prints, `SectionTimeouts(out_of_section=.., sections=[..], ..)`."""
        parts = _TIMEOUTS.search(text)
        if not parts:
            return None
        sections = {name: _seconds(value) for name, value in _TIMEOUT.findall(parts[2])}
        return cls(sections, _seconds(parts[1]), frozenset(re.findall(r"'(\w+)'", parts[3])))


def _seconds(text: str) -> float | None:
    return None if text == "None" else float(text)


@dataclass(frozen=True)
class Cycle:
    """One life of the workers.

    Attributes:
        run: how often the job was started before (requeues); 0-based.
        index: the launcher's cycle number; 0-based.
        events: in order.
    """

    run: int
    index: int
    events: tuple[Event, ...] = field(repr=False)

    def of(self, *kinds: str) -> list[Event]:
        """The events of these kinds, in order."""
        return [event for event in self.events if event.kind in kinds]

    def first(self, *kinds: str) -> Event | None:
        """The first event of these kinds."""
        return next(iter(self.of(*kinds)), None)

    @cached_property
    def iterations(self) -> list[Event]:
        """Iterations that the log shows complete (dense: the first and the last between other events)."""
        return self.of("iteration")

    @cached_property
    def last_iteration(self) -> int | None:
        """The last complete iteration."""
        numbers = [event.number("iteration") or 0 for event in (*self.iterations, *self.of("saved"))]
        return max(numbers, default=None)

    @cached_property
    def resumed_from(self) -> int | None:
        """The iteration that it started from; 0 is from random weights; None if not told."""
        started = self.of("loaded") or self.of("loop_started")
        if started:
            return started[-1].number("iteration")
        first = self.iterations[0].number("iteration") if self.iterations else None
        return 0 if first == 1 or self.of("from_scratch") else None

    @cached_property
    def events_of_training(self) -> list[Event]:
        """Lines that only a training rank prints."""
        return self.of("iteration", "saving", "saved", "loop_started")

    @cached_property
    def reached(self) -> int | None:
        """The last complete iteration, or the one it started from; None if it trained and its iterations are not told.

        Rank 0 tells of saves, the last rank of iterations: without the latter's lines, a save is only a lower bound.
        """
        if self.iterations:
            return self.last_iteration
        return None if self.of("saved") else self.resumed_from

    @cached_property
    def started_at(self) -> datetime | None:
        """When the launcher had started the workers."""
        times = [e.time for e in self.of("cycle_event") if e.fields["event"] == "worker_start_completed" and e.time]
        return max(times, default=None)

    @cached_property
    def training_at(self) -> datetime | None:
        """When its first iteration was complete."""
        return next((event.time for event in self.iterations if event.time), None)

    @cached_property
    def group_ranks(self) -> dict[str, int | None]:
        """The node rank of each launcher, by the name it has in the rendezvous."""
        return {node: event.number("group_rank") for node, event in self.participants.items()}

    @cached_property
    def node_count(self) -> int | None:
        """How many nodes took part, None if no launcher told."""
        return max((event.number("world_size") or 0 for event in self.of("node_joined")), default=0) or None

    @cached_property
    def participants(self) -> dict[str, Event]:
        """The launchers that joined, by the name they have in the rendezvous."""
        return {event.fields["node"]: event for event in self.of("node_joined")}

    @cached_property
    def launchers(self) -> dict[Source, list[Event]]:
        """What the launchers told, by where they told it."""
        found: dict[Source, list[Event]] = defaultdict(list)
        for event in self.of("cycle_event"):
            found[source(event)].append(event)
        return found

    @cached_property
    def hosts(self) -> dict[Source, set[str]]:
        """The hosts that each source names."""
        found: dict[Source, set[str]] = defaultdict(set)
        for event in self.events:
            if event.host:
                found[source(event)].add(event.host)
        return found

    @cached_property
    def timeouts(self) -> Timeouts | None:
        """The timeouts that its client printed."""
        event = self.first("ft_initialized")
        return Timeouts.parse(event.fields["timeouts"]) if event else None


def source(event: Event) -> Source:
    """Where the event was printed."""
    return (event.file, event.task)


@dataclass(frozen=True)
class Job:
    """All that the logs of one job tell, before any judgement.

    Attributes:
        cycles: in order; at least one.
        nproc_per_node: ranks on each node, None if no launcher told.
        max_restarts: restarts that the job may use, None if no launcher told.
    """

    cycles: tuple[Cycle, ...]
    nproc_per_node: int | None
    max_restarts: int | None

    def all(self, *kinds: str) -> list[Event]:
        """The events of these kinds over all cycles, in order."""
        return [event for cycle in self.cycles for event in cycle.of(*kinds)]

    def rank(self, event: Event, cycle: Cycle) -> int | None:
        """The global rank that an event is about, None where the lines leave it open."""
        if event.rank is not None:
            return event.rank
        local_rank = event.number("local_rank") if "local_rank" in event.fields else event.local_rank
        if local_rank is None:
            return None
        if cycle.node_count == 1:
            return local_rank
        if cycle.node_count is None:
            return _root_cause_rank(cycle, local_rank)
        group_rank = self._group_rank(event, cycle)
        if group_rank is None or self.nproc_per_node is None:
            return None
        return group_rank * self.nproc_per_node + local_rank

    def _group_rank(self, event: Event, cycle: Cycle) -> int | None:
        here = cycle.launchers.get(source(event), [])
        if event.host and len({e.host for e in here}) == len({e.fields["node"] for e in here}):
            here = [e for e in here if e.host == event.host]
        if len({e.fields["node"] for e in here}) == 1:
            return cycle.group_ranks.get(here[0].fields["node"])
        # Several nodes share the file: the launcher that found the failure speaks in the next line.
        following = (e for e in here if e.line > event.line and e.fields["event"] == "failure_detected")
        spoken = next(following, None)
        return spoken.number("group_rank") if spoken and event.kind == "worker_failed" else None

    def node(self, event: Event, cycle: Cycle) -> str | None:
        """The host that an event is about, where a line of the same source names it."""
        if event.host:
            return event.host
        hosts = cycle.hosts.get(source(event), set())
        return next(iter(hosts)) if len(hosts) == 1 else None


def _root_cause_rank(cycle: Cycle, local_rank: int) -> int | None:
    """The global rank that torchelastic's summary names for a local rank; torchrun tells no node ranks."""
    likeness = pattern(text_of("log.torch.root-cause-rank"))
    for event in cycle.of("root_cause"):
        for line in event.follow:
            if (match := likeness.search(line)) and int(match["local_rank"]) == local_rank:
                return int(match["rank"])
    return None


def build(events: Iterable[Event]) -> Job:
    """Sort the events of all files into cycles."""
    found = _joined_for(list(events))
    starts: dict[int, list[tuple[datetime, int]]] = defaultdict(list)
    for event in found:
        if event.kind == "cycle_event" and event.fields["event"] == "worker_start_started" and event.time:
            starts[event.run].append((event.time, event.number("cycle") or 0))
    for known in starts.values():
        known.sort()
    grouped: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in found:
        grouped[event.run, _cycle_of(event, starts.get(event.run, []))].append(event)
    cycles = tuple(
        Cycle(run, index, tuple(_in_order(replace(event, cycle=index) for event in members)))
        for (run, index), members in sorted(grouped.items())
    )
    nproc = [e.number("nproc_per_node") for e in found if e.kind == "launcher_nproc"]
    most = [e.number("max_restarts") for e in found if e.kind in ("launcher_max_restarts", "restarting")]
    return Job(cycles, next(iter(nproc), None), next((n for n in most if n is not None), None))


def _joined_for(events: list[Event]) -> list[Event]:
    """Nodes join before their cycle begins: the launcher numbers it in the line after."""
    coming: dict[tuple[str, str], int | None] = {}
    placed: list[Event] = []
    for event in reversed(events):
        if event.kind == "cycle_event" and event.fields["event"] == "rendezvous_completed":
            coming[event.file, event.fields["node"]] = event.number("cycle")
        elif event.kind == "node_joined":
            event = replace(event, cycle=coming.get((event.file, event.fields["node"]), event.cycle))
        placed.append(event)
    return placed[::-1]


def _cycle_of(event: Event, starts: Sequence[tuple[datetime, int]]) -> int:
    if event.cycle is not None:
        return event.cycle
    if starts and event.near:
        position = bisect_right(starts, (event.near, 1 << 30))
        return starts[max(position - 1, 0)][1]
    return max(event.starts - 1, 0)


def _in_order(events: Iterable[Event]) -> list[Event]:
    members = list(events)
    if len({event.file for event in members}) == 1:
        return members
    # Lines without a time of their own stay with the line before them in their file.
    beginning = min((event.near for event in members if event.near), default=datetime.min)
    return sorted(members, key=lambda event: event.near or beginning)
