# SPDX-License-Identifier: Apache-2.0
"""What ft_launcher accepts, and whether the ranks are started by it at all."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Iterator
from functools import lru_cache

from ... import facts
from ..model import HOLE, Job, Option, shown
from ..read.options import LAUNCHER_FACTS, spellings
from . import NVRX, Hit, Unsure, Versions, rule
from .reading import ft_switch, is_bridge, parse_sections, sections_option
from .suggest import as_ft_launcher


@rule(
    "not-started-by-ft-launcher",
    title="Fault tolerance is on, but another launcher starts the ranks",
    why="Each rank looks for the socket of the monitor that only ft_launcher starts, and fails at setup with "
    "RankMonitorClientError.",
    fix="Start the ranks with ft_launcher; it takes torchrun's options.",
    facts=("nvrx.error.ipc-socket", "bridge.behaviour.ft-needs-enable"),
)
def not_started_by_ft_launcher(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """torchrun, or python itself, starts a training script whose `ft.enable_ft_package` is true."""
    for launch in job.launches:
        if launch.program == "ft_launcher":
            continue
        python = job.python_of(launch)
        if python is not None and python.nemo_run and not python.bridge:
            continue
        state, place, _ = ft_switch(job, launch)
        if state != "on" or (python is None and not launch.arguments):
            continue
        if launch.script is not None and launch.script.text == HOLE and job.ft_launches():
            yield Unsure(launch.place, f"whether {launch.program} starts the training script as well")
            continue
        if python is not None and python.nemo_run and any(call.name == "Script" for call in python.calls):
            continue
        yield Hit(
            launch.place,
            f"{launch.program} starts {shown(launch.script.text) if launch.script else 'the script'}, which turns "
            f"fault tolerance on ({place})",
            as_ft_launcher(launch),
        )


@lru_cache(maxsize=None)
def _accepted(version: str) -> frozenset[str]:
    return frozenset(
        spelling
        for fact in facts.in_file(LAUNCHER_FACTS).values()
        if fact.kind == "option" and fact.holds_for(NVRX, version)
        for spelling in (fact.says["name"], *fact.says.get("also", ()))
    )


def _instead(option: Option) -> str | None:
    for fact in facts.in_file(LAUNCHER_FACTS).values():
        if fact.kind == "removed_option" and fnmatch.fnmatchcase(option.given, fact.says["name"]):
            return str(fact.says["instead"])
    return None


def _renamed(option: Option) -> str:
    value = "" if option.value is None else f"={shown(option.value)}"
    for old in ("--ft-param-", "--ft_param_", "--fault-tol-cfg-path"):
        if option.given.startswith(old):
            new = "--ft-cfg-path" if old.startswith("--fault") else "--ft-" + option.given[len(old) :].replace("_", "-")
            return f"{new}{value}"
    return f"remove {option.given}{value}"


@rule(
    "option-removed",
    title="An option that this version of ft_launcher refuses",
    why="The launcher's parser stops with exit code 2 before any rank starts.",
    fix="Use the option's present name, or leave it out.",
    facts=("nvrx.removed.ft-param", "nvrx.removed.fault-tol-cfg-path", "nvrx.removed.ignore-missing-fault-tol-cfg"),
)
def option_removed(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """An option that an earlier or later NVRx had, and the checked one has not."""
    for launch in job.ft_launches():
        for option in launch.options:
            refused = tuple(version for version in versions.nvrx if option.given not in _accepted(version))
            if not refused or not option.given.startswith("--"):
                continue
            instead = _instead(option)
            if instead is None and option.given not in spellings():
                continue
            having = [version for version in _all_versions() if option.given in _accepted(version)]
            when = f"only NVRx {', '.join(having)} has it" if having else f"instead: {instead}"
            yield Hit(
                option.place,
                f"ft_launcher of NVRx {', '.join(refused)} has no option {option.given} ({when})",
                _renamed(option),
                nvrx=refused,
            )


def _all_versions() -> tuple[str, ...]:
    from . import KNOWN

    return KNOWN[NVRX]


@rule(
    "option-unknown",
    title="An option that no version of ft_launcher has",
    why="The launcher's parser accepts exact spellings only and stops with exit code 2 before any rank starts.",
    fix="Correct the spelling; an option of the script belongs after the script's path.",
    facts=("nvrx.behaviour.unknown-option-refused",),
    holds={NVRX: ">=0.6.0"},
)
def option_unknown(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """A misspelt option before the script's path, or a mix of `-` and `_` that is no alias."""
    for launch in job.ft_launches():
        for option in {option.given: option for option in launch.options}.values():
            if option.known or _instead(option) is not None:
                continue
            value = "" if option.value is None else f"={shown(option.value)}"
            canonical = {name for name, _ in spellings().values()}
            plain = "--" + option.given.lstrip("-").replace("_", "-")
            close = [plain] if plain in canonical else difflib.get_close_matches(plain, sorted(canonical), 1, 0.8)
            script = shown(launch.script.text) if launch.script else "the script"
            yield Hit(
                option.place,
                f"ft_launcher has no option {option.given}",
                f"{close[0]}{value}" if close else f"move {option.given}{value} behind {script}, if it is the script's",
            )


@rule(
    "option-value-refused",
    title="A value that ft_launcher refuses",
    why="The launcher stops with an error before any rank starts.",
    fix="Use a value of the form that the launcher reads.",
    facts=("nvrx.option.ft-rank-section-timeouts", "nvrx.error.rdzv-backend", "nvrx.option.ft-rdzv-impl"),
)
def option_value_refused(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """A malformed timeout or section list, a number that is none, a choice that the version has not, a backend other
    than c10d, a relative path for the per-cycle log."""
    for launch in job.ft_launches():
        for option in launch.options:
            if option.value is None or not option.known or HOLE in option.value:
                continue
            refused = _refused_by(option, versions)
            if refused:
                reason, fix, nvrx = refused
                yield Hit(option.place, f"{option.given}={option.value}: {reason}", fix, nvrx=nvrx)


def _refused_by(option: Option, versions: Versions) -> tuple[str, str, tuple[str, ...]] | None:
    text = option.value or ""
    if option.name == "--ft-rank-section-timeouts":
        try:
            parse_sections(text)
        except ValueError as error:
            return f"{error}", sections_option({}), ()
        return None
    if option.name == "--rdzv-backend" and text != "c10d":
        return "only c10d is supported", "--rdzv-backend=c10d", ()
    if option.name == "--ft-per-cycle-applog-prefix" and not text.startswith("/"):
        return "the path must be absolute", f"{option.name}=$PWD/{text}", ()
    if option.name == "--nnodes" and not all(part.strip().isdigit() for part in text.split(":", 1)):
        return "neither a number nor MIN:MAX", "--nnodes=$SLURM_NNODES", ()
    refused = []
    reason = fix = ""
    for version in versions.nvrx:
        fact = option_fact(option.name, version)
        if fact is None:
            continue
        choices = fact.says.get("choices")
        if choices and text not in choices and text.lower() not in [choice.lower() for choice in choices]:
            refused.append(version)
            reason = f"NVRx {', '.join(refused)} accepts only {', '.join(choices)}"
            fix = f"{option.name}={choices[0]}" if len(choices) == 1 else f"{option.name}={'|'.join(choices)}"
            if option.name in ("--ft-restart-policy", "--ft-rdzv-impl"):
                fix = f"remove {option.given}={text}"
        elif not _is_number(text, fact):
            refused.append(version)
            reason, fix = "no number", f"{option.name}={fact.says['default'] or 60}"
    return (reason, fix, tuple(refused)) if refused else None


def _is_number(text: str, fact: facts.Fact) -> bool:
    kind = fact.says.get("type")
    if "timeout" in fact.says["name"] and kind == "str":
        kind = "" if text.strip().lower() in ("none", "null", "") else "float"
    try:
        if kind == "int":
            int(text)
        elif kind == "float":
            float(text)
    except ValueError:
        return False
    return True


def option_fact(name: str, version: str) -> facts.Fact | None:
    """The fact about the option in this version of NVRx; None if it has none of that name."""
    for fact in facts.in_file(LAUNCHER_FACTS).values():
        if fact.kind == "option" and fact.says["name"] == name and fact.holds_for(NVRX, version):
            return fact
    return None


@rule(
    "option-after-script",
    title="A launcher option behind the script's path",
    why="The launcher stops reading at the script's path: the option goes to the script and has no effect on the "
    "launcher.",
    fix="Move the option before the script's path.",
    facts=("nvrx.behaviour.script-ends-options",),
)
def option_after_script(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """An `--ft-*` option of ft_launcher stands after the training script, or --max-restarts both before and after
    (a warning)."""
    for launch in job.ft_launches():
        if launch.script is None or launch.module:
            continue
        python = job.python_of(launch)
        for word in launch.arguments:
            given = word.text.partition("=")[0]
            if given not in spellings():
                continue
            name = spellings()[given][0]
            before = any(option.name == name for option in launch.options)
            again = before and name == "--max-restarts" and not (python and re.search("max[-_]restarts", python.text))
            if given.startswith("--ft-") or again:
                text, script = shown(word.text), shown(launch.script.text)
                yield Hit(
                    word.place,
                    f"{text} stands after {script}{f', and {name} before it as well' if before else ''}",
                    f"remove {text} after {script}" if before else f"move {text} before {script}",
                    severity="warning" if again else None,
                    confidence="medium" if again else None,
                )


@rule(
    "launcher-in-nsys",
    title="nsys profiles a run with fault tolerance",
    why="Bridge declares the two incompatible: the profiler holds ranks that the monitor wants to kill and restart.",
    fix="Profile in a run of its own, started by torchrun and without ft.",
    facts=("bridge.plugin.no-nsys",),
    severity="warning",
    confidence="medium",
)
def launcher_in_nsys(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """nsys stands around ft_launcher, or between ft_launcher and the training script."""
    for launch in job.ft_launches():
        inside = launch.script is not None and launch.script.text.rpartition("/")[2] == "nsys"
        inside = inside or any(word.text == "nsys" for word in launch.arguments[:1])
        if "nsys" not in launch.wrappers and not inside:
            continue
        if is_bridge(job, launch)[0] is False:
            continue
        yield Hit(launch.place, "ft_launcher runs under nsys", "drop `nsys profile ...` from this command")
