# SPDX-License-Identifier: Apache-2.0
"""From blocks to events: the literals first, by bytes.find; the patterns only on lines that hold one."""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Iterable, Iterator

from .events import Event, read_prefix, time_in
from .reading import LOOK_AHEAD_BYTES, Block, LogFile, blocks
from .signatures import Signature, by_literal

#: Of one kind of event in one file, so many are kept: the first half and the last half.
MOST_OF_A_KIND = 2000
#: Beyond half of these, so few lines below each are read.
FOLLOW_OF_MANY = 40
#: A line is cut to so many bytes around what was found in it.
LONGEST_EXCERPT_BYTES = 4096
_TEXT_CHARACTERS = 400
#: Kinds whose own words hold their time.
_TIME_IN_TEXT = frozenset(
    {"planned_exit", "training_done", "time_limit", "preempted", "requeued", "job_node_lost", "slurm_signalled"}
)
#: After these, a launcher that starts in the same file belongs to a new run of the job.
_JOB_ENDS = frozenset({"time_limit", "preempted", "requeued", "job_node_lost"})
#: Above a traceback, or in front of it (Bridge's optional imports), these say that the process lives on.
_SURVIVED = re.compile(r"Exception (?:in thread|ignored in)\b|Import of \S+ from \S+ failed with: Traceback")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?")
_OTHER_RANK = re.compile(r"\S*\[rank[0-9]+\]:")


@dataclass
class _Stream:
    """What the lines of one source have told so far; one launcher's lines may share a file with another's."""

    run: int = 0
    cycle: int | None = None
    launchers: int = 0  # started and not ended
    ended: bool = False
    starts: int = 0  # how often rank 0 began
    initializing: bool = False


class Scanner:
    """Reads one file into its events."""

    def __init__(self, file: LogFile) -> None:
        self.file = file
        self.bytes_read = 0
        self.left_out: Counter[str] = Counter()
        self._followed: Counter[str] = Counter()
        self._near: datetime | None = None
        self._last: tuple[int, Signature] | None = None
        self._stream = _Stream()

    def events(self, notes: list[str]) -> list[Event]:
        """The file's events, in line order: of each kind the first and the last ones, the rest only counted."""
        first: list[Event] = []
        latest: dict[str, deque[Event]] = defaultdict(lambda: deque(maxlen=MOST_OF_A_KIND // 2))
        seen: Counter[str] = Counter()
        for event in self._matches(notes):
            seen[event.kind] += 1
            if seen[event.kind] <= MOST_OF_A_KIND // 2:
                first.append(event)
            else:
                latest[event.kind].append(event)
        self.left_out += Counter({kind: count - MOST_OF_A_KIND for kind, count in seen.items()})
        return sorted([*first, *chain.from_iterable(latest.values())], key=lambda event: event.line)

    def _matches(self, notes: list[str]) -> Iterator[Event]:
        line = 1
        for block in blocks(self.file, notes):
            self.bytes_read += block.end
            counted = 0
            for start, signatures in _candidates(block):
                line += block.data.count(b"\n", counted, start)
                counted = start
                if event := self._event(block.data, start, signatures, line):
                    yield event
            line += block.data.count(b"\n", counted, block.end)

    def _event(self, block: bytes, start: int, signatures: Iterable[Signature], line: int) -> Event | None:
        begin = block.rfind(b"\n", max(0, start - LONGEST_EXCERPT_BYTES), start) + 1
        if not begin and start > LONGEST_EXCERPT_BYTES:
            begin = start - LONGEST_EXCERPT_BYTES
        end = block.find(b"\n", start, start + LONGEST_EXCERPT_BYTES)
        end = end if end >= 0 else min(len(block), start + LONGEST_EXCERPT_BYTES)
        text = _decoded(block[begin:end])
        for signature in signatures:
            if match := signature.pattern.search(text):
                break
        else:
            return None
        if (line, signature) == self._last:
            return None  # another of its literals
        if signature.event == "traceback" and _SURVIVED.search(f"{_line_above(block, begin)}\n{text}"):
            return None
        self._last = (line, signature)
        told = read_prefix(text[: match.start()], self._near.year if self._near else None)
        if self.file.labels_are_ranks and "task" in told:
            told["rank"] = told.pop("task")
        if signature.event in _TIME_IN_TEXT and (at := time_in(text[match.start() :])):
            told["time"] = at
        if told.get("time") and (self._near is None or told["time"] > self._near):  # type: ignore[operator]
            self._near = told["time"]  # type: ignore[assignment]
        event = Event(
            kind=signature.event,
            signature=signature,
            fields=match.groupdict(),
            file=self.file.name,
            line=line,
            text=text.strip()[:_TEXT_CHARACTERS],
            near=self._near,
            follow=self._lines_below(block, end, text[: match.start()], signature),
            **told,  # type: ignore[arg-type]
        )
        return self._placed(event)

    def _lines_below(self, block: bytes, end: int, prefix: str, signature: Signature) -> tuple[str, ...]:
        if not signature.follow:
            return ()
        self._followed[signature.event] += 1
        many = self._followed[signature.event] > MOST_OF_A_KIND // 2
        return _lines_below(block, end, prefix, min(signature.follow, FOLLOW_OF_MANY) if many else signature.follow)

    def _placed(self, event: Event) -> Event:
        """The event with its cycle and run, from the file's name, its own words or the lines before it."""
        stream = self._stream
        if event.kind == "launcher_started":
            if stream.ended and stream.launchers <= 0:
                self._stream = stream = _Stream(run=stream.run + 1)
            stream.launchers += 1
        elif event.kind == "launcher_exit":
            stream.ended, stream.launchers = True, stream.launchers - 1
        elif event.kind == "root_cause":
            stream.ended = True  # torchrun's last words
        elif event.kind in _JOB_ENDS:
            stream.ended, stream.launchers = True, 0
        elif event.kind == "cycle_event" and event.fields["event"] == "worker_start_started":
            cycle = event.number("cycle")
            if stream.cycle is not None and cycle is not None and cycle < stream.cycle:
                self._stream = stream = _Stream(run=stream.run + 1, launchers=1)
            stream.cycle = cycle
        elif event.kind == "ft_initializing" or (event.kind == "loop_started" and not stream.initializing):
            stream.starts += 1
        stream.initializing = event.kind != "loop_started" and (stream.initializing or event.kind == "ft_initializing")
        cycle = event.number("cycle") if event.kind in ("overdue", "heartbeat_missing") else None
        if cycle is None:
            cycle = self.file.cycle
        if cycle is None:
            cycle = stream.cycle
        local_rank = event.local_rank if event.local_rank is not None else self.file.local_rank
        return replace(event, run=stream.run, cycle=cycle, starts=stream.starts, local_rank=local_rank)


def _candidates(block: Block) -> list[tuple[int, list[Signature]]]:
    """Where the literals are, in order. Of dense lines only the first and the last between two others."""
    hits: list[tuple[int, list[Signature]]] = []
    dense: list[tuple[bytes, list[Signature]]] = []
    for literal, signatures in by_literal().items():
        if all(signature.dense for signature in signatures):
            dense.append((literal, signatures))
            continue
        start = block.data.find(literal, 0, block.end)
        while start >= 0:
            hits.append((start, signatures))
            start = block.data.find(literal, start + len(literal), block.end)
    hits.sort(key=lambda hit: hit[0])
    edges = [0, *(start for start, _ in hits), block.end]
    for literal, signatures in dense:
        for low, high in zip(edges, edges[1:]):
            first = block.data.find(literal, low, high)
            if first >= 0:
                hits.append((first, signatures))
                last = block.data.rfind(literal, low, high)
                if last != first:
                    hits.append((last, signatures))
    hits.sort(key=lambda hit: hit[0])
    return hits


def _decoded(line: bytes) -> str:
    return _ANSI.sub("", line.decode("utf-8", "replace")).rstrip("\r")


def _line_above(block: bytes, begin: int) -> str:
    above = block.rfind(b"\n", max(0, begin - LONGEST_EXCERPT_BYTES), max(begin - 1, 0)) + 1
    return _decoded(block[above:begin])


def _lines_below(block: bytes, start: int, prefix: str, most: int) -> tuple[str, ...]:
    """Up to `most` lines after the one that ends at start, of those with its prefix if others have it too.

    A time in the prefix may differ. Other ranks write in between; a logger's prefix, on the other hand, stands on the
    first line alone.
    """
    raw = block[start + 1 : start + 1 + LOOK_AHEAD_BYTES].split(b"\n", most)[:most]
    whole = b"\n".join(line[:LONGEST_EXCERPT_BYTES] for line in raw)
    lines = [line.rstrip() for line in _decoded(whole).split("\n")]
    own = re.compile(_TIME.pattern.join(re.escape(part) for part in _TIME.split(prefix.rstrip())))
    blanks = len(prefix) - len(prefix.rstrip())
    mine = [line[match.end() + blanks :] for line in lines if (match := own.match(line))]
    if prefix and mine:
        return tuple(mine)
    return tuple(line for line in lines if not _OTHER_RANK.match(line))
