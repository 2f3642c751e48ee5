# SPDX-License-Identifier: Apache-2.0
"""Whether fault tolerance is asked for at all, and whether what asks for it is read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from ...report.finding import Place
from ..model import HOLE, Job, Launch, PythonFile, known, matching, shown
from ..read.python import overrides_in
from . import Hit, Unsure, Versions, rule
from .reading import PLUGIN, elsewhere, ft_switch, is_bridge, takes_overrides
from .suggest import by_mpi, enabled_in, enabling

NEMO_RUN_GUIDE = "references/fault-tolerance.md#the-nemo-run-path"


#: Names of programs that train nothing; their launches are no question.
_NO_TRAINING = re.compile(
    r"convert|conversion|roundtrip|export|import|generat|infer|serve|eval|compare|parity|verify|check|prepare|preprocess|"
    r"download|tokeniz|quantiz|prun|test|coverage",
    re.I,
)


def trains(python: PythonFile) -> bool:
    """True if the file itself calls Bridge's training; conversion, inference and evaluation scripts do not."""
    return (
        python.bridge
        and "megatron.bridge.training" in python.text
        and re.search(r"(?<!def )\b(?:pretrain|finetune)\s*\(", python.text) is not None
    )


def _started_by_nemo_run(job: Job) -> bool:
    return any(python.nemo_run for python in job.python)


def _starts_ranks(launch: Launch) -> bool:
    """True for a launch of ranks; a plain `python x.py` is as likely to be a preparation."""
    return launch.program != "python" or launch.step is not None or by_mpi(launch)


@rule(
    "fault-tolerance-off",
    title="A Bridge training job without fault tolerance",
    why="A hang is never noticed and nothing restarts: the job waits until its time limit, and one lost rank ends it.",
    fix="Set cfg.ft in the training script and start it with ft_launcher; both halves, or none.",
    facts=("bridge.behaviour.ft-needs-enable", "bridge.config.ft"),
)
def fault_tolerance_off(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """Another launcher than ft_launcher starts a given script that trains with Bridge and does not turn `ft` on.
    A job that is meant to run without it says so in the comment that silences this rule."""
    if job.ft_launches():
        return
    for launch in job.launches:
        python = job.python_of(launch)
        if python is None:
            if not _starts_ranks(launch) or _NO_TRAINING.search(_name(launch)):
                continue
            if is_bridge(job, launch)[0] is not False and _is_off(job, launch) is None:
                yield Unsure(launch.place, f"whether fault tolerance is on: {_name(launch)} was not given; give it too")
        elif trains(python) and not python.nemo_run:
            off = _is_off(job, launch)
            if off:
                yield Hit(
                    launch.place,
                    f"{launch.program} starts {python.path}, and neither ft_launcher nor an enabled cfg.ft is there",
                    "\n".join(enabling(python, launch)),
                )
            elif off is None:
                yield Unsure(launch.place, f"whether fault tolerance is on: {ft_switch(job, launch)[2]}")
    yield from _nemo_run_without(job)
    if not (job.launches or job.unclear or job.unread or _started_by_nemo_run(job)):
        for python in filter(trains, job.python):
            yield Unsure(Place(python.path, 1), f"what starts {PurePath(python.path).name} was not given; give it too")


def _nemo_run_without(job: Job) -> Iterator[Hit]:
    """NeMo-Run scripts that start a given training script, where nothing in either speaks of fault tolerance."""
    for script in job.python:
        if not script.nemo_run or re.search(r"FaultTolerance|[\"']ft[\"']", script.text) or elsewhere(job, script):
            continue
        for call in script.calls:
            path = call.arguments.get("path", HOLE)
            python = matching(str(path), job.python) if call.name == "Script" and known(path) else None
            if python is not None and trains(python) and sets_no_ft(job) and elsewhere(job, python) is None:
                yield Hit(
                    call.place,
                    f"NeMo-Run starts {python.path}, and neither {PLUGIN} nor an enabled cfg.ft is there",
                    f"{enabled_in(python)}\n# {PLUGIN} with its settings: {NEMO_RUN_GUIDE}",
                )


def _is_off(job: Job, launch: Launch) -> bool | None:
    state = ft_switch(job, launch)[0]
    return None if state == "unknown" else state in ("absent", "off")


def _name(launch: Launch) -> str:
    if launch.script is None or not launch.script.text.replace(HOLE, ""):
        return "the training script"
    return PurePath(shown(launch.script.text)).name


def sets_no_ft(job: Job) -> bool:
    """True if no given Python or YAML file sets `ft` or a part of it."""
    return not any(setting.name.partition(".")[0] == "ft" for setting in job.settings())


def reads_no_overrides(job: Job, python: PythonFile) -> bool:
    """True if the training script cannot learn anything from its command line."""
    reads = takes_overrides(python) or re.search(r"\b(getopt|optparse)\b", python.text)
    return trains(python) and not reads and elsewhere(job, python) is None


@rule(
    "overrides-not-read",
    title="`ft` is set by arguments that the training script does not read",
    why="A script sees overrides only where it reads them and applies them to its configuration: fault tolerance stays "
    "off without a word.",
    fix="Set cfg.ft in the script, or read the overrides there with process_config_with_overrides.",
    facts=("bridge.behaviour.ft-needs-enable", "bridge.config.ft", "bridge.plugin.default-overrides"),
)
def overrides_not_read(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """`ft` comes only from arguments, or from FaultTolerancePlugin, and the given script reads no arguments."""
    if not sets_no_ft(job):
        return
    for launch in job.launches:
        python = job.python_of(launch)
        given = [word for word in overrides_in(launch.arguments) if re.match(r"\+{0,2}ft[.=]", word.text)]
        if given and python is not None and reads_no_overrides(job, python):
            problem = f"{shown(given[0].text)}, and {python.path} reads no overrides"
            yield Hit(given[0].place, problem, enabled_in(python))
    for script in job.python:
        plugin = next((call for call in script.calls if call.name == PLUGIN), None)
        paths = [call.arguments.get("path", HOLE) for call in script.calls if call.name == "Script"]
        for path in filter(known, paths):
            python = matching(str(path), job.python)
            if plugin is not None and python is not None and reads_no_overrides(job, python):
                yield Hit(
                    plugin.place,
                    f"{PLUGIN} turns ft on by overrides, and {python.path} reads none",
                    enabled_in(python),
                )
