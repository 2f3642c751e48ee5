# SPDX-License-Identifier: Apache-2.0
"""The monitor's timeouts: are all parts of a Bridge run watched, and nothing that Bridge never sends waited for?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ... import facts
from ..model import HOLE, MISSING, Job, Launch, known, shown
from ..read.options import LAUNCHER_FACTS
from . import NVRX, Hit, Unsure, Versions, rule
from .reading import (
    SUGGESTED_OUT_OF_SECTION,
    WARMUP,
    Timeouts,
    bridge_sections,
    config_file,
    is_bridge,
    sections_option,
    setting,
    timeouts,
    training_file,
)


def _bridge_launches(job: Job) -> Iterator[tuple[Launch, Timeouts, str]]:
    """The ft_launcher launches that train with Bridge, or that may and say nothing else, with how sure that is."""
    for launch in job.ft_launches():
        answer, sure = is_bridge(job, launch)
        if answer:
            yield launch, timeouts(job, launch), sure


def _complete(found: Timeouts) -> str:
    """The two options that watch a whole Bridge run, with the values given."""
    sections = found.sections.value if isinstance(found.sections.value, Mapping) else {}
    outside = found.out_of_section.value
    outside = f"{outside:g}" if isinstance(outside, float) else SUGGESTED_OUT_OF_SECTION
    return f"{sections_option(sections)} --ft-rank-out-of-section-timeout={outside}"


@rule(
    "no-section-timeouts",
    title="ft_launcher without section timeouts",
    why="A section without a timeout is never watched, so no hang is detected; only a rank that exits is noticed.",
    fix="Give a timeout to every section that Bridge opens, and to what lies outside.",
    facts=("nvrx.behaviour.unlisted-section-unwatched", "bridge.section.step", "bridge.error.calc-without-sections"),
)
def no_section_timeouts(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """Neither the command line nor the YAML file names a section."""
    for launch in job.ft_launches():
        found = timeouts(job, launch)
        if found.sections.value == HOLE:
            if config_file(job, launch) == HOLE and launch.value("--ft-rank-section-timeouts") is MISSING:
                yield Unsure(launch.place, "the timeouts stand in a YAML file that was not given; give it too")
            else:
                yield Unsure(launch.place, "the section timeouts are not known, so what they leave unwatched is not")
            continue
        if (found.sections.value is not MISSING and found.sections.value) or not found.whole:
            continue
        bridge, _ = is_bridge(job, launch)
        python = training_file(job, launch)
        if bridge is False or (python is not None and python.monitored):
            continue
        if bridge is None and any(isinstance(v.value, float) for v in (found.heartbeat, found.initial_heartbeat)):
            yield Unsure(launch.place, "heartbeat timeouts are set; whether the script sends any needs the script")
            continue
        calc = setting(job, launch, "ft.calc_ft_timeouts")
        then = ""
        if calc is not None and calc.value in (True, "true"):
            then = "; ft.calc_ft_timeouts then raises KeyError 'step' at the first save after 16 iterations"
        yield Hit(
            launch.place,
            f"no --ft-rank-section-timeouts{then}",
            _complete(found),
            confidence="high" if bridge else "medium",
        )


@rule(
    "section-unknown",
    title="A section that Bridge never opens",
    why="Bridge opens setup, step and checkpointing; a timeout for any other name watches nothing.",
    fix="Use Bridge's names.",
    facts=("bridge.section.setup", "bridge.section.step", "bridge.section.checkpointing"),
)
def section_unknown(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """A name in the section timeouts that is neither one of Bridge's sections nor `warmup`."""
    for launch, found, sure in _bridge_launches(job):
        if not isinstance(found.sections.value, Mapping):
            continue
        for name in found.sections.value:
            if name not in (*bridge_sections(), WARMUP):
                yield Hit(
                    found.sections.place,
                    f"Bridge opens no section `{name}`",
                    sections_option(found.sections.value),
                    confidence=sure,
                )


@rule(
    "section-unwatched",
    title="A section of Bridge without a timeout",
    why="A section that is not listed is ignored completely: a hang in it is never detected.",
    fix="List setup, step and checkpointing, each with a number of seconds.",
    facts=("nvrx.behaviour.unlisted-section-unwatched", "bridge.section.checkpointing"),
)
def section_unwatched(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """The section timeouts leave out setup, step or checkpointing, or switch one off with `none`."""
    for launch, found, sure in _bridge_launches(job):
        sections = found.sections.value
        if not isinstance(sections, Mapping) or not sections or not found.whole:
            continue
        absent = [name for name in bridge_sections() if name not in sections]
        off = [name for name in bridge_sections() if name in sections and sections[name] is None]
        if absent or off:
            told = [f"no timeout for {', '.join(absent)}"] if absent else []
            told += [f"{', '.join(off)} switched off"] if off else []
            yield Hit(found.sections.place, "; ".join(told), sections_option(sections), confidence=sure)


@rule(
    "no-warmup-section",
    title="The first iteration is not watched: no `warmup` among the section timeouts",
    why="Bridge's first iteration is in no section, and without the name warmup NVRx does not enforce the "
    "out-of-section timeout before the first step: a hang in the first collectives is never detected.",
    fix="Add `warmup` to the section timeouts, and give an out-of-section timeout that covers the first iteration.",
    facts=("nvrx.behaviour.out-of-section-waits-for-step", "bridge.behaviour.first-iteration-unsectioned"),
    holds={NVRX: ">=0.6.0"},
)
def no_warmup_section(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """Section timeouts are given, and none is called `warmup`."""
    for launch, found, sure in _bridge_launches(job):
        sections = found.sections.value
        if isinstance(sections, Mapping) and sections and found.whole and WARMUP not in sections:
            yield Hit(
                found.sections.place,
                f"section timeouts without {WARMUP}: {', '.join(sections)}",
                sections_option(sections),
                confidence=sure,
            )


@rule(
    "no-out-of-section-timeout",
    title="Nothing watches the time outside the sections",
    why="The first iteration, evaluation's first step and the time between sections have only this timeout; without "
    "it a hang there is never detected.",
    fix="Set --ft-rank-out-of-section-timeout, long enough for the first iteration.",
    facts=("nvrx.option.ft-rank-out-of-section-timeout", "bridge.behaviour.first-iteration-unsectioned"),
)
def no_out_of_section_timeout(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """Section timeouts are given, and the out-of-section timeout is absent or `none`."""
    for launch, found, sure in _bridge_launches(job):
        sections = found.sections.value
        given = sections == HOLE or (isinstance(sections, Mapping) and sections)
        if found.out_of_section.value == HOLE and launch.option("--ft-cfg-path") is None:
            yield Unsure(found.out_of_section.place, "--ft-rank-out-of-section-timeout is not known")
        if given and (found.out_of_section.value is MISSING or found.out_of_section.value is None):
            off = "is switched off" if found.out_of_section.value is None else "is not set"
            yield Hit(
                found.out_of_section.place,
                f"--ft-rank-out-of-section-timeout {off}",
                f"--ft-rank-out-of-section-timeout={SUGGESTED_OUT_OF_SECTION}",
                confidence=sure,
            )


@rule(
    "heartbeat-timeout",
    title="A heartbeat timeout, and Bridge sends no heartbeat",
    why="Every rank of a healthy run is killed when the timeout has passed, in every cycle, until the restarts are "
    "used up.",
    fix="Leave the heartbeat timeouts out (or `null`) and use section timeouts.",
    facts=("bridge.behaviour.no-heartbeats", "nvrx.behaviour.heartbeat-kill"),
)
def heartbeat_timeout(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """A heartbeat timeout is set on the command line or in the YAML file, or is on by default (NVRx 0.5.0)."""
    options = {"initial_heartbeat": "--ft-initial-rank-heartbeat-timeout", "heartbeat": "--ft-rank-heartbeat-timeout"}
    for launch in job.ft_launches():
        bridge, sure = is_bridge(job, launch)
        found = timeouts(job, launch)
        by_default: dict[str, dict[str, float]] = {}
        for field, option in options.items():
            value = getattr(found, field)
            if isinstance(value.value, float) and bridge:
                yield Hit(value.place, f"{option}={value.value:g}", f"{option}=null", confidence=sure)
            elif isinstance(value.value, float) and bridge is None:
                yield Unsure(value.place, f"{option} suits only a script that sends heartbeats; Bridge sends none")
            elif value.value is MISSING and bridge:
                for version in versions.nvrx:
                    default = _default(option, version)
                    if isinstance(default, float):
                        by_default.setdefault(version, {})[option] = default
        if by_default:
            told = ", ".join(f"{option}={value:g}" for option, value in by_default[min(by_default)].items())
            off = " ".join(f"{option}=null" for option in by_default[min(by_default)])
            yield Hit(
                launch.place,
                f"on by default in NVRx {', '.join(by_default)}: {told}",
                off,
                confidence=sure,
                nvrx=tuple(by_default),
            )


def _default(option: str, version: str) -> object:
    key = option.removeprefix("--ft-").replace("-", "_")
    for fact in facts.in_file(LAUNCHER_FACTS).values():
        if fact.kind == "yaml_key" and fact.says["key"] == key and fact.holds_for(NVRX, version):
            return fact.says["default"]
    return None


@rule(
    "process-group-timeout-first",
    title="The process-group timeout ends a hang before the monitor does",
    why="The NCCL watchdog aborts the ranks when a collective has waited for the process-group timeout, so the longer "
    "allowance of the monitor is never used.",
    fix="Raise dist.distributed_timeout_minutes above the monitor's timeout, or lower the monitor's.",
    facts=("bridge.dist.distributed-timeout-minutes", "nvrx.option.ft-rank-out-of-section-timeout"),
    severity="warning",
    confidence="medium",
)
def process_group_timeout_first(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """The step, checkpointing or out-of-section timeout is longer than dist.distributed_timeout_minutes."""
    for launch, found, _ in _bridge_launches(job):
        if training_file(job, launch) is None:
            continue
        given = setting(job, launch, "dist.distributed_timeout_minutes")
        default = float(facts.in_file("bridge_ft.yaml")["bridge.dist.distributed-timeout-minutes"].says["default"])
        minutes = default if given is None or given.value is MISSING else _number(given.value)
        if minutes is None:
            continue
        limits = {}
        if isinstance(found.sections.value, Mapping):
            limits = {name: found.sections.value.get(name) for name in ("step", "checkpointing")}
        limits["out-of-section"] = found.out_of_section.value
        longer = {name: value for name, value in limits.items() if isinstance(value, float) and value > minutes * 60}
        if longer:
            told = ", ".join(f"{name} {value:g} s" for name, value in longer.items())
            source = "Bridge's default" if given is None or given.value is MISSING else str(given.place)
            needed = int(-(-max(longer.values()) // 60)) + 1
            yield Hit(
                found.sections.place,
                f"{told}; the process-group timeout is {minutes * 60:g} s ({source})",
                f"cfg.dist.distributed_timeout_minutes = {needed}",
            )


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not known(value):
        return None
    try:
        return float(shown(str(value)))
    except ValueError:
        return None
