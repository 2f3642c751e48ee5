# SPDX-License-Identifier: Apache-2.0
"""What one matched line says, with everything its prefixes tell about when and where it was printed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Mapping

from .signatures import Signature

#: The prefix of NVRx's own logger: date, level, host, ranks.
_NVRX = re.compile(
    r"\[(?P<level>[A-Z]+)\] \[(?P<host>[^\]]+)\] "
    r"\[workload:(?P<rank>[0-9]+|\?)\((?P<local_rank>[0-9]+|\?)\) infra:(?P<infra_rank>[0-9]+|\?)\((?:[0-9]+|\?)\)\]"
)
_TIME = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})[ T](?P<time>[0-9]{2}:[0-9]{2}:[0-9]{2})(?:[.,](?P<part>[0-9]{1,6}))?"
)
#: glog style, without a year: torch's own loggers.
_GLOG_TIME = re.compile(
    r"\b[IWEF](?P<month>[0-9]{2})(?P<day>[0-9]{2}) (?P<time>[0-9]{2}:[0-9]{2}:[0-9]{2})\.(?P<part>[0-9]{1,6})"
)
#: What is older or longer is no time of a training job, and dates cannot be reckoned with it.
_FIRST_YEAR = 2000
_LONGEST_SECONDS = 1e9
_TASK = re.compile(r"^ *(?P<task>[0-9]+): ")  # srun --label
_TEE = re.compile(r"\[[A-Za-z_]+(?P<local_rank>[0-9]+)\]:")  # torchrun and ft_launcher --tee: [default0]:
_RANK = re.compile(r"\[rank(?P<rank>[0-9]+)\]:")  # torch.distributed's excepthook and loggers
_RAY = re.compile(r"\([^()]* pid=[0-9]+(?:, ip=(?P<host>[^)]+))?\)")
_SLURMSTEPD = re.compile(r"slurmstepd-(?P<host>[^:]+):")


@dataclass(frozen=True)
class Event:
    """One observation.

    Attributes:
        kind: the signature's event.
        signature: what was matched.
        fields: the variable parts of the line.
        file: the file's name as shown.
        line: 1-based.
        text: the line, cut to 400 characters.
        time: when, in the node's own clock, if the line tells it.
        near: the latest time that the file has told up to this line.
        host: the node that printed it, if the line tells it.
        task: the number that srun --label put in front.
        rank: the global rank that printed it, if the line tells it.
        local_rank: the rank on its node, if the line or the file's name tells it.
        cycle: the cycle it belongs to, if the line, the file's name or the lines before tell it.
        run: how many runs of the job ended in this file before it.
        starts: how often rank 0 began in this file before it, in this run.
        follow: lines below that belong to it.
    """

    kind: str
    signature: Signature
    fields: Mapping[str, str]
    file: str
    line: int
    text: str
    time: datetime | None = None
    near: datetime | None = None
    host: str | None = None
    task: int | None = None
    rank: int | None = None
    local_rank: int | None = None
    cycle: int | None = None
    run: int = 0
    starts: int = 0
    follow: tuple[str, ...] = field(default=(), repr=False)

    @property
    def place(self) -> str:
        """file:line."""
        return f"{self.file}:{self.line}"

    def number(self, name: str) -> int | None:
        """A variable part as an integer, None if absent or not one."""
        text = self.fields.get(name, "").strip()
        return int(text) if text.lstrip("-").isdigit() else None

    def seconds(self, name: str) -> float | None:
        """A variable part as seconds, None if absent or no sensible number."""
        try:
            seconds = float(self.fields[name])
        except (KeyError, ValueError):
            return None
        return seconds if seconds < _LONGEST_SECONDS else None


def read_prefix(prefix: str, year: int | None) -> dict[str, object]:
    """What the part of a line before the match tells: time, host, task, rank, local_rank.

    Args:
        prefix: the text before the match.
        year: the year of the last full date seen, for prefixes that carry none.
    """
    told: dict[str, object] = {}
    if time := _time(prefix, year):
        told["time"] = time
    if match := _TASK.search(prefix):
        told["task"] = int(match["task"])
    if match := _NVRX.search(prefix):
        told["host"] = match["host"]
        for name in ("rank", "local_rank"):
            if match[name] != "?":
                told[name] = int(match[name])
    if match := _RANK.search(prefix):
        told["rank"] = int(match["rank"])
    elif match := _TEE.search(prefix):
        told["local_rank"] = int(match["local_rank"])
    if (match := _RAY.search(prefix)) and match["host"]:
        told["host"] = match["host"]
    if match := _SLURMSTEPD.search(prefix):
        told["host"] = match["host"]
    return told


def _time(text: str, year: int | None) -> datetime | None:
    # The last date wins: collectors put their own in front of the program's.
    dated = list(_TIME.finditer(text))
    if dated:
        found, day = dated[-1], dated[-1]["date"]
    elif (glog := _GLOG_TIME.search(text)) and year:
        found, day = glog, f"{year}-{glog['month']}-{glog['day']}"
    else:
        return None
    try:
        time = datetime.fromisoformat(f"{day} {found['time']}.{(found['part'] or '0').ljust(6, '0')}")
    except ValueError:
        return None
    return time if time.year >= _FIRST_YEAR else None


def time_in(text: str) -> datetime | None:
    """The date and time that a text holds, if any."""
    return _time(text, None)
