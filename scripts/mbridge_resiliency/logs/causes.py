# SPDX-License-Identifier: Apache-2.0
"""Why a cycle ended: one function a cause, each pure, tried in the order of CAUSES.

A rank is named only where lines prove it. Otherwise rank is None, and suspects and deciding say what is left open.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Callable, Iterable, Sequence

from .. import facts
from .cycles import Cycle, Job, source
from .events import Event

#: A learned timeout under this fires on the slightest delay, whatever was observed.
SMALLEST_SENSIBLE_TIMEOUT_SECONDS = 10.0
MOST_RANKS_LISTED = 8
#: Time without an iteration before the end, from which on a hang is suspected.
WORTH_SAYING_IDLE_SECONDS = 600.0
DECIDES_A_HANG = (
    "the stacks of every rank while it hangs (py-spy dump --pid PID), or the flight recorder's dumps "
    "(dist.flight_recorder_dump_path): the rank at fault is the one that did not enter the collective"
)
#: The last line of a traceback: the exception's name, then its message.
_EXCEPTION = re.compile(
    r"(?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt|Failure|Timeout|Expired|Requested|Signal)(?::|$)"
)
#: The last line of an exception by which a rank tells that it waited for another one in vain.
_WAITED = re.compile(
    r"closed by peer|reset by peer|remote process exiting|ncclRemoteError|Broken pipe|[Tt]imed? ?out|Timeout\(ms\)"
)
_NOT_A_FAILURE = re.compile(r"SystemExit|(?:\w+\.)*(?:SignalException|ChildFailedError|NoRestartRequested)")
#: Exit codes by which the re-run state machine ends every rank.
_RERUN_EXITS = (16, 17)
#: What a launcher's name in the rendezvous has behind its host: domain, process id, number.
_BEHIND_HOST = re.compile(r"(?:\..*|_[0-9]+_[0-9]+)$")
#: Frames of reading a checkpoint; code that is only called by way of them counts as well.
_LOADING_FRAME = re.compile(r"in (?:load_checkpoint|_load_checkpoint_from_path|_load_base_checkpoint)\b")


@dataclass(frozen=True)
class Cause:
    """Why a cycle ended.

    Attributes:
        id: one of the published cause ids.
        event: the line that shows it.
        why: how the lines lead to it, in one sentence.
        rank: the global rank at fault, where lines prove it.
        node: the host at fault, where lines prove it.
        section: the monitored section, for a hang.
        suspects: ranks that may be at fault, where no line proves it.
        victims: ranks that failed because another did.
        deciding: what would settle an open question.
        evidence: further lines that count.
        idle_seconds: how long nothing had been completed before the end, where that is worth saying, else 0.
    """

    id: str
    event: Event
    why: str
    rank: int | None = None
    node: str | None = None
    section: str | None = None
    suspects: tuple[int, ...] = ()
    victims: tuple[int, ...] = ()
    deciding: str = ""
    evidence: tuple[Event, ...] = field(default=(), repr=False)
    idle_seconds: float = 0.0


def find(job: Job, cycle: Cycle) -> Cause | None:
    """The cause that ended the cycle; None if nothing in it tells of a failure."""
    cause = next((cause for rule in CAUSES if (cause := rule(job, cycle))), None)
    if cause is None:
        return None
    return replace(cause, victims=tuple(sorted(_waited_for_a_peer(job, cycle) - {cause.rank})))


def time_limit(job: Job, cycle: Cycle) -> Cause | None:
    """Slurm's own words."""
    event = cycle.first("time_limit")
    if not event or _failed_before(cycle, event):
        return None
    return _with_idle(Cause("time-limit", event, "Slurm ended the job at its time limit."), cycle)


def preempted(job: Job, cycle: Cycle) -> Cause | None:
    """Slurm's own words."""
    event = cycle.first("preempted")
    if not event or _failed_before(cycle, event):
        return None
    return _with_idle(Cause("preempted", event, "Slurm took the nodes for a job of higher priority."), cycle)


def without_ft_launcher(job: Job, cycle: Cycle) -> Cause | None:
    """The client found no rank monitor: torchrun or plain python stands above it."""
    event = cycle.first("no_monitor")
    if not event:
        return None
    return Cause(
        "started-without-ft-launcher",
        event,
        "Fault tolerance is configured, but the job was not started by ft_launcher, so every rank fails at setup.",
    )


def heartbeats_never_sent(job: Job, cycle: Cycle) -> Cause | None:
    """Heartbeat timeouts are set, and Bridge sends none."""
    event = cycle.first("heartbeat_missing")
    if not event:
        return None
    return Cause(
        "heartbeat-timeout-without-heartbeats",
        event,
        "A heartbeat timeout is set on the launcher, and Megatron Bridge sends no heartbeats: "
        "the monitor kills healthy ranks.",
        evidence=tuple(cycle.of("heartbeat_missing")[1:3]),
    )


def timeouts_without_sections(job: Job, cycle: Cycle) -> Cause | None:
    """calc_ft_timeouts asks the launcher for sections that it does not have."""
    if cycle.timeouts is None or cycle.timeouts.sections:
        return None
    for event in cycle.of("traceback"):
        if "calculate_and_set_section_timeouts" in _frames(event) and _exception(event):
            return Cause(
                "calc-timeouts-without-sections",
                event,
                "calc_ft_timeouts learns section timeouts, and the launcher was given no sections.",
            )
    return None


def learned_timeout(job: Job, cycle: Cycle) -> Cause | None:
    """A timeout from ft_state.json kills before work is done, every time."""
    loaded = cycle.first("ft_timeouts_loaded")
    overdue = [event for event in cycle.of("overdue") if _is_learned(cycle, event)]
    if not loaded or not overdue:
        return None
    event = overdue[0]
    repeated = [c for c in job.cycles if not c.iterations and any(_is_learned(c, e) for e in c.of("overdue"))]
    tiny = (event.seconds("timeout") or 0.0) < SMALLEST_SENSIBLE_TIMEOUT_SECONDS
    if not tiny and len(repeated) < 2:
        return None
    return Cause(
        "learned-timeout-too-small",
        event,
        f"The {_section(event)} timeout of {event.fields['timeout'].strip()} s was learned in an earlier run and "
        f"loaded from {loaded.fields['path']}; it wins over the command line.",
        section=event.fields.get("section"),
        evidence=(loaded, *overdue[1:3]),
    )


def _is_learned(cycle: Cycle, event: Event) -> bool:
    return cycle.timeouts is not None and event.fields.get("section", "") in cycle.timeouts.learned


def hang(job: Job, cycle: Cycle) -> Cause | None:
    """A rank monitor found a section, or the time between sections, overdue."""
    overdue = cycle.of("overdue")
    if not overdue or _raised_before(job, cycle, overdue[0]):
        return None
    ranks, everybody = _ranks(job, cycle, overdue), _everybody(job, cycle)
    waited = _waited_for_a_peer(job, cycle)
    stopped_first = min(overdue, key=_stopped_at)
    section = stopped_first.fields.get("section")
    where = f"in section '{section}'" if section else "outside every section"
    told = f"rank{'s' if len(ranks) > 1 else ''} {listed(ranks)}" if ranks else "a rank"
    rank: int | None = None
    suspects = everybody - waited
    shown_by = next(event for event in overdue if event.fields.get("section") == section)
    asked_for = cycle.first("simulated_fault")
    if asked_for:
        rank, suspects = asked_for.number("rank"), set()
        why = f"Rank {rank} was made to hang {where} on request."
    elif len(everybody) == 1:
        rank, suspects = 0, set()
        why = f"The monitor found rank 0, the only one of the job, stuck {where} past the timeout."
    else:
        there = _ranks(job, cycle, [event for event in overdue if event.fields.get("section") == section])
        why = f"The monitor found {told} stuck {where} past the timeout. "
        if len(there) == 1 and ranks == everybody and _clearly_first(stopped_first, overdue):
            suspects = there
            why += f"Rank {listed(there)} stopped there before the others stopped elsewhere."
        elif waited:
            why += f"Rank {listed(waited)} was waiting for a peer when the monitor killed that one."
        else:
            why += "Healthy ranks wait for the hung one and are overdue as well; the lines do not tell which is which."
    if rank is None and ranks < everybody:
        why += " Not every monitor had looked before the ranks were stopped: one that is not listed may have hung."
    return Cause(
        "hang-in-section" if section else "hang-out-of-section",
        shown_by,
        why,
        rank=rank,
        section=section,
        suspects=tuple(sorted(suspects)),
        node=_one_node(job, cycle, overdue) if rank is None else job.node(stopped_first, cycle),
        deciding="" if rank is not None else DECIDES_A_HANG,
        evidence=tuple(event for event in overdue if event is not shown_by)[:3],
    )


def _raised_before(job: Job, cycle: Cycle, overdue: Event) -> bool:
    """A rank that raised leaves its section open until its process is gone: the monitor then takes it for hung."""
    own = [raised.event for raised in _raised(job, cycle) if not _WAITED.search(raised.text)]
    ended = [event for event in own if event.rank is not None or event.kind == "pretrain_failed"]
    return any(event.file != overdue.file or event.line < overdue.line for event in ended)


def _stopped_at(event: Event) -> float:
    return (event.time.timestamp() if event.time else float("inf")) - (event.seconds("elapsed") or 0.0)


def _clearly_first(first: Event, overdue: Sequence[Event]) -> bool:
    others = [e for e in overdue if e.fields.get("section") != first.fields.get("section")]
    return bool(others) and first.time is not None and all(_stopped_at(e) > _stopped_at(first) for e in others)


def _one_node(job: Job, cycle: Cycle, events: Sequence[Event]) -> str | None:
    """The host, if the whole job ran on it: then the fault is there, whichever rank it was."""
    return job.node(events[0], cycle) if cycle.node_count == 1 else None


def _ranks(job: Job, cycle: Cycle, events: Iterable[Event]) -> set[int]:
    """The ranks that the events are about, as far as they are told."""
    return {rank for event in events if (rank := job.rank(event, cycle)) is not None}


def _everybody(job: Job, cycle: Cycle) -> set[int]:
    """All ranks of the job, none if the launchers do not tell how many there are."""
    return set(range((job.nproc_per_node or 0) * (cycle.node_count or 0)))


def hang_in_collective(job: Job, cycle: Cycle) -> Cause | None:
    """NCCL or gloo gave up on a collective: who reports it waited, and who does not may be at fault."""
    reports = [event for event in cycle.of("collective_timeout") if not _went_on_after(event, cycle)]
    if not reports:
        return None
    waited = _ranks(job, cycle, reports)
    by = "gloo" if reports[0].signature.fact == "log.torch.gloo-timeout" else "NCCL's watchdog"
    return Cause(
        "collective-timeout",
        reports[0],
        f"Rank {listed(waited) or '?'} waited in a collective until {by} gave up; no rank monitor had found a hang "
        "before.",
        suspects=tuple(sorted(_everybody(job, cycle) - waited)),
        deciding=DECIDES_A_HANG,
        evidence=tuple(reports[1:4]),
    )


def bad_result(job: Job, cycle: Cycle) -> Cause | None:
    """NaN or infinity in the loss or a gradient; the line names rank and node."""
    event = cycle.first("bad_result")
    if not event:
        return None
    return Cause(
        "nan-or-inf",
        event,
        f"Rank {event.number('rank')} found {event.fields['result']} at iteration {event.number('iteration')}.",
        rank=event.number("rank"),
        node=event.fields.get("node") or job.node(event, cycle),
    )


def rerun_exit(job: Job, cycle: Cycle) -> Cause | None:
    """Core's re-run state machine ended the job. It does so on every rank alike: the first one dead is not at fault."""
    codes = {f.says["code"]: f.says["means"] for f in facts.in_file("exit_codes.yaml").values() if _is_of_rank(f)}
    event = next((e for e in cycle.of("worker_failed") if e.number("exitcode") in _RERUN_EXITS), None)
    if not event:
        return None
    code = event.number("exitcode")
    results = cycle.of("bad_result")
    ranks = {rank for e in results if (rank := e.number("rank")) is not None}
    nodes = {node for e in results if (node := e.fields.get("node") or job.node(e, cycle))}
    only = _one_node(job, cycle, [event])
    return Cause(
        f"rerun-exit-{code}",
        event,
        f"The ranks exited with {code}: {codes[code]}.",
        rank=next(iter(ranks)) if len(ranks) == 1 else None,
        node=next(iter(nodes)) if len(nodes) == 1 else only,
        suspects=tuple(sorted(ranks)) if len(ranks) > 1 else (),
        evidence=tuple(results[:3]),
    )


def load_failed(job: Job, cycle: Cycle) -> Cause | None:
    """A checkpoint could not be used. Bridge ends some of these with exit code 0."""
    event = cycle.first("load_failed")
    if event:
        return Cause("checkpoint-load-failed", event, event.signature.means)
    for event in cycle.of("traceback"):
        if _LOADING_FRAME.search(_frames(event)) and not _WAITED.search(_exception(event)):
            return Cause(
                "checkpoint-load-failed",
                event,
                f"Reading the checkpoint raised {_with_source_line(event)}.",
                rank=job.rank(event, cycle),
                node=job.node(event, cycle),
                evidence=tuple(cycle.of("pretrain_failed")[:1]),
            )
    return None


def out_of_memory(job: Job, cycle: Cycle) -> Cause | None:
    """The GPU's allocator, the kernel or Slurm said so. An exit code -9 alone does not."""
    event = cycle.first("oom_killed") or cycle.first("gpu_out_of_memory")
    if not event or not _ended_badly(cycle):
        return None
    if event.kind == "gpu_out_of_memory":
        return Cause(
            "out-of-memory",
            event,
            "The GPU's memory was used up.",
            rank=job.rank(event, cycle),
            node=job.node(event, cycle),
        )
    return Cause(
        "out-of-memory",
        event,
        "The host's memory was used up; the kernel killed a process.",
        node=job.node(event, cycle),
    )


def node_lost(job: Job, cycle: Cycle) -> Cause | None:
    """Slurm or NVRx says that a node is gone, or its launcher falls silent and is not in the next cycle."""
    event = cycle.first("node_lost", "job_node_lost", "node_unhealthy")
    if event:
        node = event.fields.get("node", "").strip() or job.node(event, cycle)
        return Cause("node-lost", event, event.signature.means, node=node)
    gone, why = _not_in_the_next(job, cycle) or _silent_with_the_store(cycle) or ("", "")
    if not gone:
        return None
    joined = cycle.participants[gone]
    others = {name: other.host for name, other in cycle.participants.items() if name != gone}
    node = joined.host
    if node is None or node in others.values():
        named = _BEHIND_HOST.sub("", gone)
        apart = named != "localhost" and named not in {_BEHIND_HOST.sub("", name) for name in others}
        node = named if apart else None
    return Cause("node-lost", joined, f"The launcher {gone} {why}", node=node)


def _not_in_the_next(job: Job, cycle: Cycle) -> tuple[str, str] | None:
    following = next((c for c in job.cycles if c.run == cycle.run and c.index > cycle.index), None)
    if following is None or not following.participants or len(cycle.participants) < 2:
        return None
    gone = sorted(set(cycle.participants) - set(following.participants))
    if len(gone) != 1:
        return None
    sources = {name: source(event) for name, event in cycle.participants.items()}
    apart = len(set(sources.values())) > 1
    if apart and any(source(event) == sources[gone[0]] for event in cycle.of("worker_failed")):
        return None  # it was there to see a rank of its own fail
    return gone[0], "took part in this cycle and not in the next."


def _silent_with_the_store(cycle: Cycle) -> tuple[str, str] | None:
    ends = cycle.of("launcher_exit")
    if not any("DistNetworkError" in event.fields.get("error", "") for event in ends):
        return None
    ended = {source(event) for event in ends}
    silent = [name for name, event in cycle.participants.items() if source(event) not in ended]
    if len(silent) != 1:
        return None
    return silent[0], "fell silent, and the others lost the rendezvous store that it kept."


def rank_killed(job: Job, cycle: Cycle) -> Cause | None:
    """A worker died of a signal, and no monitor or launcher had sent it one."""
    if cycle.of("overdue"):
        return None  # the monitor's own kill
    for event in cycle.of("worker_failed"):
        exitcode = event.number("exitcode") or 0
        if exitcode < 0:
            return Cause(
                "rank-killed",
                event,
                f"The process died of signal {-exitcode}, and no monitor had found it overdue before.",
                rank=job.rank(event, cycle),
                node=job.node(event, cycle),
                deciding="the kernel's log of that node (dmesg): it tells an out-of-memory kill"
                if exitcode == -9
                else "",
            )
    return None


def rank_exception(job: Job, cycle: Cycle) -> Cause | None:
    """Ranks raised, and not because they lost a peer. One is named where it alone did."""
    if not _ended_badly(cycle):
        return None
    own = [raised for raised in _raised(job, cycle) if not _WAITED.search(raised.text)]
    if not own:
        return None
    ranks = {raised.rank for raised in own if raised.rank is not None}
    first = next((raised for raised in own if raised.rank is not None), own[0])
    why = f"It raised {first.text}"
    if len(ranks) > 1:
        why = f"{len(ranks)} ranks raised, the first in the log: {first.text}"
    return Cause(
        "rank-exception",
        first.event,
        why,
        rank=first.rank if len(ranks) == 1 else None,
        node=job.node(first.event, cycle) if len(ranks) == 1 else None,
        suspects=tuple(sorted(ranks)) if len(ranks) > 1 else (),
        evidence=tuple(cycle.of("worker_failed")[:1]),
    )


def rank_exited_zero(job: Job, cycle: Cycle) -> Cause | None:
    """Ranks lost a peer that neither raised nor died of a signal: it left with code 0."""
    lost = [raised.event for raised in _raised(job, cycle) if _WAITED.search(raised.text)]
    failed = cycle.of("worker_failed")
    if not lost or not failed or cycle.node_count != 1 or job.nproc_per_node is None:
        return None
    victims = _waited_for_a_peer(job, cycle)
    left = [rank for rank in range(job.nproc_per_node) if rank not in victims]
    return Cause(
        "rank-exited-zero",
        failed[0],
        f"Rank {listed(victims)} lost a peer that neither raised nor died of a signal: it left with exit code 0.",
        rank=left[0] if len(left) == 1 else None,
        node=job.node(lost[0], cycle) or _one_node(job, cycle, cycle.events),
        suspects=() if len(left) == 1 else tuple(left),
        evidence=tuple(lost[:2]),
    )


def cancelled(job: Job, cycle: Cycle) -> Cause | None:
    """The launcher was told to stop, or Slurm ended the step, before anything failed."""
    event = cycle.first("launcher_signalled", "requeued", "step_killed", "slurm_signalled")
    if not event or cycle.of("planned_exit", "training_done"):
        return None
    if event.kind == "slurm_signalled" and not cycle.of("launcher_signalled", "step_killed", "launcher_exit"):
        return None  # a warning signal prints the same
    if _failed_before(cycle, event):
        return None
    cause = _with_idle(Cause("cancelled", event, f"{event.signature.means} Nothing in these logs says why."), cycle)
    why, shown_by = cause.why, cycle.of("monitor_stopped")[:1]
    if shown_by:
        why += " The signal reached the rank monitors as well, so the ranks failed in their orderly stop."
    elif raised := [r for r in _raised(job, cycle) if not _WAITED.search(r.text)]:
        shown_by = cycle.of("loader_killed")[:1]
        why += f" The stop was not orderly: a rank raised {raised[0].text.strip()}"
        if shown_by:
            why += " The signal ended a worker of the data loader before the ranks had saved."
    return replace(cause, why=why, evidence=tuple(shown_by))


def unexplained(job: Job, cycle: Cycle) -> Cause | None:
    """A failure that the logs show and do not explain."""
    failing = [event for event in cycle.of("launcher_exit") if is_failure(event)]
    event = cycle.first("worker_failed", "restarting", "no_progress_stop") or next(iter(failing), None)
    if not event:
        return None
    waited = _waited_for_a_peer(job, cycle)
    suspects = set() if cycle.of("overdue") else _ranks(job, cycle, cycle.of("worker_failed"))
    if waited:
        why = f"Rank {listed(waited)} lost a peer; these logs do not show how that one went away."
    else:
        why = "The launcher saw a failure; these logs do not show what came before it."
    return Cause(
        "unknown",
        event,
        why,
        suspects=tuple(sorted(suspects - waited)),
        deciding="the standard error of the ranks (torchrun and ft_launcher: --log-dir DIR --redirects 3 --tee 3)",
    )


def _is_of_rank(fact: facts.Fact) -> bool:
    return bool(fact.says["program"] == "training process")


#: In this order: what was said outright first, then what is inferred, then what is left.
CAUSES: tuple[Callable[[Job, Cycle], "Cause | None"], ...] = (
    time_limit,
    preempted,
    without_ft_launcher,
    heartbeats_never_sent,
    timeouts_without_sections,
    learned_timeout,
    hang,
    hang_in_collective,
    cancelled,
    rerun_exit,
    bad_result,
    load_failed,
    out_of_memory,
    node_lost,
    rank_killed,
    rank_exception,
    rank_exited_zero,
    unexplained,
)


def _failed_before(cycle: Cycle, end: Event) -> bool:
    """A rank had failed before: the end only came on top of it."""
    before = cycle.events[: cycle.events.index(end)]
    return any(event.kind in ("worker_failed", "restarting", "overdue") for event in before)


def _with_idle(cause: Cause, cycle: Cycle) -> Cause:
    """The cause with how long nothing had been completed before it, where that is worth saying."""
    last, end = next((event.time for event in reversed(cycle.iterations) if event.time), None), cause.event.time
    idle = (end - last).total_seconds() if last and end else 0.0
    if idle < WORTH_SAYING_IDLE_SECONDS or cycle.of("training_done"):
        return cause
    why = f"{cause.why} The last iteration had been complete {idle:.0f} s before: it may have hung unnoticed."
    return replace(cause, why=why, idle_seconds=idle)


def _ended_badly(cycle: Cycle) -> bool:
    return bool(cycle.of("worker_failed", "restarting", "no_progress_stop")) or any(
        is_failure(event) for event in cycle.of("launcher_exit")
    )


def is_failure(event: Event) -> bool:
    """A launcher's last line that tells of a failure."""
    return not event.signature.fact.endswith(("exit-0", "exited-gracefully"))


def _exception(event: Event) -> str:
    """The line that ends a traceback, "" if it was cut off."""
    return next((line[:200] for line in event.follow if _EXCEPTION.match(line)), "")


def _with_source_line(event: Event) -> str:
    """The line that ends a traceback; if it carries no message, the source line that raised stands for one."""
    told = _exception(event)
    source = [line.strip() for line in _frames(event).splitlines() if line.strip(" ^~")]
    return told if ":" in told or not source else f"{told} at `{source[-1][:150]}`"


def _frames(event: Event) -> str:
    """The lines of a traceback up to its exception; what follows in the log is not part of it."""
    return "\n".join(takewhile(lambda line: not _EXCEPTION.match(line), event.follow))


@dataclass(frozen=True)
class _Raised:
    """An exception that ended a rank: its last line, and the rank where the log tells it."""

    event: Event
    rank: int | None
    text: str


def _raised(job: Job, cycle: Cycle) -> list[_Raised]:
    """Exceptions in order, without those by which launchers and planned stops end."""
    found = [_Raised(event, job.rank(event, cycle), _exception(event)) for event in cycle.of("traceback")]
    found += [
        _Raised(event, event.number("rank"), f"{event.fields['error']}: {event.fields['message']}")
        for event in cycle.of("pretrain_failed")
    ]
    found = [raised for raised in found if raised.text and not _NOT_A_FAILURE.match(raised.text)]
    return [raised for raised in found if not _went_on_after(raised.event, cycle)]


def _went_on_after(event: Event, cycle: Cycle) -> bool:
    """Iterations follow in the same file: the exception was handled."""
    return any(later.file == event.file and later.line > event.line for later in cycle.iterations)


def _waited_for_a_peer(job: Job, cycle: Cycle) -> set[int]:
    """Ranks whose exception says that another one went away or did not come.

    The monitor wakes a stopped rank (SIGCONT) before it kills it, and in between the guilty rank itself can find its
    peer gone and say so. So where monitors killed, the exception counts only if it stands before the rank's own
    overdue line.
    """
    overdue = {job.rank(event, cycle): event for event in reversed(cycle.of("overdue"))}
    waited = set()
    for raised in _raised(job, cycle):
        if raised.rank is None or not _WAITED.search(raised.text):
            continue
        woken = overdue.get(raised.rank)
        if woken is None or (woken.file == raised.event.file and raised.event.line < woken.line):
            waited.add(raised.rank)
    return waited


def _section(event: Event) -> str:
    return f"'{event.fields['section']}'" if "section" in event.fields else "out-of-section"


def listed(ranks: Iterable[int]) -> str:
    """The ranks in order; of many, the first ones and how many more."""
    known = sorted(ranks)
    more = len(known) - MOST_RANKS_LISTED
    return ", ".join(map(str, known[:MOST_RANKS_LISTED])) + (f" and {more} more" if more > 0 else "")
