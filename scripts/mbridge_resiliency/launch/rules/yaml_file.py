# SPDX-License-Identifier: Apache-2.0
"""The YAML file that ft_launcher reads, and what it drops without a word."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from functools import lru_cache

from ... import facts
from ..model import HOLE, MISSING, Job, YamlFile
from ..read.options import LAUNCHER_FACTS
from . import KNOWN, NVRX, Hit, Unsure, Versions, rule
from .launcher import option_fact
from .reading import config_file


@lru_cache(maxsize=None)
def _keys(version: str) -> frozenset[str]:
    return frozenset(
        fact.says["key"]
        for fact in facts.in_file(LAUNCHER_FACTS).values()
        if fact.kind == "yaml_key" and fact.holds_for(NVRX, version)
    )


@rule(
    "yaml-key-ignored",
    title="A key that ft_launcher drops without a word",
    why="Unknown keys of the fault_tolerance section are ignored: the setting keeps its default.",
    fix="Use the name of the setting.",
    facts=("nvrx.behaviour.yaml-unknown-keys-ignored", "nvrx.yaml.rank-section-timeouts"),
)
def yaml_key_ignored(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """A key of `fault_tolerance:` that the checked NVRx does not know."""
    for document in job.yaml:
        for key in document.section or ():
            ignored = tuple(version for version in versions.nvrx if key not in _keys(version))
            if not ignored:
                continue
            having = [version for version in KNOWN[NVRX] if key in _keys(version)]
            every = set().union(*(_keys(version) for version in ignored))
            bare = str(key).replace("-", "_").removeprefix("ft_")
            close = [bare] if bare in every else difflib.get_close_matches(bare, sorted(every), 1, 0.75)
            fix = f"{close[0]}: {document.section[key]}" if close else f"remove {key}"  # type: ignore[index]
            only = f" (only NVRx {', '.join(having)} has it)" if having else ""
            yield Hit(document.place(str(key)), f"fault_tolerance has no key {key}{only}", fix, nvrx=ignored)


@rule(
    "yaml-section-missing",
    title="The YAML file has no `fault_tolerance` section",
    why="ft_launcher ignores such a file without a word and runs with its defaults: no timeout at all.",
    fix="Put the settings below `fault_tolerance:`.",
    facts=("nvrx.behaviour.yaml-without-section-ignored",),
)
def yaml_section_missing(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """The file of --ft-cfg-path, or of PET_FT_CFG_PATH, has no mapping called `fault_tolerance`."""
    for launch in job.ft_launches():
        document = config_file(job, launch)
        if isinstance(document, YamlFile) and document.section is None:
            yield Hit(
                document.place(),
                f"{document.path}, which {launch.place} names, has no fault_tolerance section",
                "fault_tolerance:\n  rank_section_timeouts: {setup: 600, step: 180, checkpointing: 420, warmup: 600}\n"
                "  rank_out_of_section_timeout: 600",
            )


@rule(
    "yaml-progress-overridden",
    title="The command line's default replaces the YAML file's progress settings",
    why="In NVRx 0.6.0 the options have defaults (2 cycles, 1 iteration) that win over the file.",
    fix="Give the value on the command line.",
    facts=("nvrx.behaviour.progress-defaults-win",),
    severity="warning",
    holds={NVRX: ">=0.6.0,<0.7.0"},
)
def yaml_progress_overridden(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """max_no_progress_cycles or min_progress_iterations stands in the YAML file only, with another value."""
    keys = ("max_no_progress_cycles", "min_progress_iterations")
    for launch in job.ft_launches():
        document = config_file(job, launch)
        if not isinstance(document, YamlFile) or document.section is None:
            continue
        for key in keys:
            option = f"--ft-{key.replace('_', '-')}"
            fact = option_fact(option, versions.nvrx[-1])
            default = fact.says["default"] if fact else None
            value = document.section.get(key, default)
            if value not in (default, HOLE) and launch.value(option) is MISSING:
                yield Hit(document.place(key), f"{key}: {value} is replaced by {default}", f"{option}={value}")
