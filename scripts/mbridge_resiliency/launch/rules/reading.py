# SPDX-License-Identifier: Apache-2.0
"""What several rules ask of a job: its effective timeouts, whether it trains with Bridge, whether `ft` is on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Mapping

from ... import facts
from ...report.finding import Place
from ..model import HOLE, MISSING, Job, Launch, PythonFile, Setting, YamlFile, known
from ..read.python import OVERRIDE, overrides_in

#: The section that no code opens: its name alone makes NVRx watch the time before the first step.
WARMUP = "warmup"
#: Seconds, used in a fix where the files give no value of their own.
SUGGESTED = {"setup": 600, "step": 180, "checkpointing": 420, WARMUP: 600}
SUGGESTED_OUT_OF_SECTION = 600
TARGET = "megatron.bridge.training.config.FaultToleranceConfig"
SWITCH = "ft.enable_ft_package"
PLUGIN = "FaultTolerancePlugin"
FT_OVERRIDE = f"'ft={{_target_:{TARGET},enable_ft_package:true}}'"
#: Options of Megatron-LM's own training scripts, which drive the monitor in their own way; Bridge's take overrides.
MEGATRON_LM = frozenset(
    "--tensor-model-parallel-size --pipeline-model-parallel-size --num-layers --micro-batch-size --global-batch-size "
    "--enable-ft-package --calc-ft-timeouts --hidden-size --use-mcore-models".split()
)
_NOTHING = ("none", "null", "")


@lru_cache(maxsize=None)
def bridge_sections() -> tuple[str, ...]:
    """The sections that Megatron Bridge opens."""
    return tuple(fact.says["name"] for fact in facts.in_file("bridge_ft.yaml").values() if fact.kind == "section")


@dataclass(frozen=True)
class Value:
    """A launcher setting with where it comes from. value: None where it is switched off; HOLE; MISSING."""

    value: Any
    place: Place


@dataclass(frozen=True)
class Timeouts:
    """The monitor's settings that a launch ends up with: command line over YAML file over default.

    Attributes:
        sections: a mapping of section to seconds (None: no limit; HOLE), HOLE or MISSING.
        whole: False if a part of the sections could not be resolved.
    """

    sections: Value
    out_of_section: Value
    initial_heartbeat: Value
    heartbeat: Value
    whole: bool = True


def timeouts(job: Job, launch: Launch) -> Timeouts:
    """The launch's timeouts, malformed values as HOLE (a rule of their own reports them)."""
    document = config_file(job, launch)
    sections = _setting(launch, "--ft-rank-section-timeouts", "rank_section_timeouts", document)
    whole = True
    if isinstance(sections.value, str) and sections.value != HOLE:
        try:
            mapping, whole = parse_sections(sections.value)
            sections = Value(mapping, sections.place)
        except ValueError:
            sections = Value(HOLE, sections.place)
    elif isinstance(sections.value, Mapping):
        sections = Value({str(k): seconds(v) for k, v in sections.value.items()}, sections.place)
    elif sections.value is None:
        sections = Value({}, sections.place)

    def one(option: str, key: str) -> Value:
        found = _setting(launch, option, key, document)
        return found if found.value is MISSING else Value(seconds(found.value), found.place)

    return Timeouts(
        sections,
        one("--ft-rank-out-of-section-timeout", "rank_out_of_section_timeout"),
        one("--ft-initial-rank-heartbeat-timeout", "initial_rank_heartbeat_timeout"),
        one("--ft-rank-heartbeat-timeout", "rank_heartbeat_timeout"),
        whole,
    )


def _setting(launch: Launch, option: str, key: str, document: YamlFile | str | None) -> Value:
    value = launch.value(option)
    if value is not MISSING and not (value == HOLE and launch.option(option) is None):
        return Value(value, launch.place_of(option))
    if isinstance(document, YamlFile) and document.section is not None and key in document.section:
        return Value(document.section[key], document.place(key))
    if document == HOLE or value == HOLE:
        return Value(HOLE, launch.place)
    return Value(MISSING, launch.place)


def config_file(job: Job, launch: Launch) -> YamlFile | str | None:
    """The launch's ft YAML file; HOLE if it names one that was not given; None if it names none."""
    path = launch.value("--ft-cfg-path")
    if path is MISSING:
        return None
    return (job.yaml_of(str(path)) if str(path).replace(HOLE, "") else None) or HOLE


def seconds(value: Any) -> float | None | str:
    """A timeout as a number of seconds, None where it is off, HOLE where it is not known or no number."""
    if value is None or (isinstance(value, str) and value.strip().lower() in _NOTHING):
        return None
    if isinstance(value, bool) or not known(value):
        return HOLE
    try:
        return float(value)
    except (TypeError, ValueError):
        return HOLE


def parse_sections(text: str) -> tuple[dict[str, float | None | str], bool]:
    """(section -> seconds, whether all of it is known) of `name:seconds,...`.

    Raises:
        ValueError: the launcher refuses the text; the message says what is wrong with it.
    """
    sections: dict[str, float | None | str] = {}
    whole = True
    if not text.strip():
        return {}, True
    for pair in text.split(","):
        if pair.replace(HOLE, "") == "" and HOLE in pair:
            whole = False
            continue
        name, colon, value = pair.partition(":")
        if not colon and HOLE not in pair:
            raise ValueError(f"`{pair.strip()}` has no `:`")
        if ":" in value:
            raise ValueError(f"`{pair.strip()}` has more than one `:`")
        found = seconds(value)
        if found == HOLE and known(value):
            raise ValueError(f"`{value.strip()}` is no number of seconds")
        if HOLE in name:
            whole = False
        else:
            sections[name.strip()] = found
    return sections, whole


def sections_option(sections: Mapping[str, Any]) -> str:
    """The complete option: what is given, plus what a Bridge job needs."""
    wanted = {name: sections.get(name) for name in (*bridge_sections(), WARMUP)}
    pairs = []
    for name, value in wanted.items():
        text = f"{value:g}" if isinstance(value, float) else str(SUGGESTED[name])
        pairs.append(f"{name}:{text}")
    return f"--ft-rank-section-timeouts={','.join(pairs)}"


def is_bridge(job: Job, launch: Launch) -> tuple[bool | None, str]:
    """(whether the launch trains with Megatron Bridge, how sure); None if that could not be told."""
    python = training_file(job, launch)
    if python is not None:
        if python.bridge:
            return True, "high"
        return (None if python.sources else False), "high"
    if any(re.match(r"\+{0,2}ft[.=]", word.text) for word in launch.arguments):
        return True, "high"
    if any(word.text.partition("=")[0] in MEGATRON_LM for word in launch.arguments) or (
        launch.script is not None and re.search(r"pretrain_(gpt|bert|t5|mamba|vlm|retro)\.py$", launch.script.text)
    ):
        return False, "high"
    sections = timeouts(job, launch).sections.value
    if isinstance(sections, Mapping) and len(set(sections) & set(bridge_sections())) >= 2:
        return True, "medium"
    return None, "low"


def training_file(job: Job, launch: Launch) -> PythonFile | None:
    """The given Python file that the launch starts; where its name is unknown, the only one that trains with Bridge."""
    found = job.python_of(launch)
    if found is None and (launch.script is None or launch.script.text == HOLE):
        trainers = [python for python in job.python if python.bridge]
        found = trainers[0] if len(trainers) == 1 else None
    return found


def ft_switch(job: Job, launch: Launch) -> tuple[str, Place, str]:
    """(state, place, reason) of Bridge's fault tolerance in the launch's training script.

    state: on; off (set but not enabled); absent (nothing sets it); unknown, with the reason.
    """
    for word in overrides_in(launch.arguments):
        if re.match(r"\+{0,2}ft(\.enable_ft_package)?=", word.text):
            if "enable_ft_package" in word.text:
                on = re.search(r"enable_ft_package[:=]\s*[\"']?true", word.text, re.I)
                return ("on" if on else "off"), word.place, ""
            return "unknown", word.place, "an override sets ft"
    python = training_file(job, launch)
    if python is None:
        return "unknown", launch.place, f"{_script(launch)} was not given"
    setting = job.setting(SWITCH)
    slot = job.setting("ft")
    last = next((found for found in reversed(list(job.settings())) if found.name in ("ft", SWITCH)), None)
    if last is not None and last.name == "ft" and last.value is None and last.certain:
        return "absent", last.place, ""
    if setting is not None:
        if not setting.certain:
            return "unknown", setting.place, "ft is set in a branch that may not run"
        if setting.value is MISSING or setting.value is False:
            return "off", setting.place, ""
        if setting.value is True:
            return "on", setting.place, ""
        return "unknown", setting.place, "the value of ft.enable_ft_package is not in the files"
    if slot is not None and slot.value is not None:
        return "unknown", slot.place, "what is assigned to ft is not in the files"
    if not python.bridge:
        return "unknown", launch.place, f"{python.path} does not use Megatron Bridge itself"
    missing = elsewhere(job, python)
    if missing:
        return "unknown", Place(python.path), f"{python.path} imports {missing}, which was not given"
    if takes_overrides(python) and unread_overrides(job, python, launch):
        return "unknown", launch.place, "arguments or a YAML file that were not given may set ft"
    return "absent", Place(python.path), ""


def elsewhere(job: Job, python: PythonFile) -> str | None:
    """A module that the file imports, that may hold configuration, and that was not given."""
    for module in python.sources:
        tail = module.rpartition(".")[2]
        if not any(other.path.endswith(f"{tail}.py") or f"/{tail}/" in other.path for other in job.python):
            return module
    return None


def takes_overrides(python: PythonFile) -> bool:
    return bool(re.search(r"argv|argparse|parse_known_args|overrides|hydra|OmegaConf|click|typer", python.text))


def unread_overrides(job: Job, python: PythonFile, launch: Launch) -> bool:
    """True if the launch has arguments that are not known, or a configuration file that was not given is read."""
    files = [word.text for word in launch.arguments if word.text.endswith((".yaml", ".yml"))]
    if any(HOLE in word.text for word in launch.arguments) or not all(job.yaml_of(file) for file in files):
        return True
    return not job.yaml and bool(re.search(r"\.ya?ml\b", python.text))


def _script(launch: Launch) -> str:
    if launch.script is None or launch.script.text == HOLE:
        return "the training script"
    return launch.script.text.replace(HOLE, "...")


def overrides(job: Job, launch: Launch | None = None) -> list[tuple[str, str, Place]]:
    """(name with its plus signs, value, place) of every override string of the launch or, without one, of the job."""
    words = []
    for item in [launch] if launch else job.launches:
        words.extend(overrides_in(item.arguments))
    for python in job.python:
        words.extend(python.overrides)
    found = []
    for word in words:
        if OVERRIDE.match(word.text):
            name, _, value = word.text.partition("=")
            found.append((name, value, word.place))
    return found


def setting(job: Job, launch: Launch, name: str) -> Setting | None:
    """A Bridge setting of the launch: the last override of it, else the last assignment."""
    for given, value, place in reversed(overrides(job, launch)):
        if given.lstrip("+") == name:
            return Setting(name, None if value in ("null", "None") else value, place, origin="override")
    if training_file(job, launch) is None:
        return None
    return job.setting(name)
