# SPDX-License-Identifier: Apache-2.0
"""Bridge's side: is fault tolerance on, can the run be saved and resumed, do the overrides do what they say?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...report.finding import Place
from ..model import HOLE, MISSING, Job, Launch, PythonFile, known, shown
from . import Hit, Unsure, Versions, rule
from .reading import (
    FT_OVERRIDE,
    TARGET,
    elsewhere,
    ft_switch,
    overrides,
    setting,
    takes_overrides,
    training_file,
    unread_overrides,
)
from .suggest import ENABLE
from .switch import reads_no_overrides


@rule(
    "ft-config-missing",
    title="ft_launcher starts a Bridge script that never sets `ft`",
    why="Bridge connects to the monitor only where cfg.ft is set and enabled: hangs are not detected and the timeouts "
    "on the command line watch nothing.",
    fix="Set cfg.ft before pretrain or finetune is called.",
    facts=("bridge.config.ft", "bridge.behaviour.ft-needs-enable"),
)
def ft_config_missing(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """No given file, argument or override sets the `ft` slot of the script that ft_launcher starts."""
    for launch in job.ft_launches():
        state, place, reason = ft_switch(job, launch)
        if state == "absent":
            yield Hit(launch.place, f"{place.file} sets no ft", ENABLE)
        elif state == "unknown":
            yield Unsure(launch.place, f"whether the script turns fault tolerance on: {reason}")


@rule(
    "ft-not-enabled",
    title="`ft` is set and not enabled",
    why="enable_ft_package is False by default, and everything else in ft has no effect without it.",
    fix="FaultToleranceConfig(enable_ft_package=True, ...).",
    facts=("bridge.ft.enable-ft-package", "bridge.behaviour.ft-needs-enable"),
)
def ft_not_enabled(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """ft_launcher starts a script whose FaultToleranceConfig leaves enable_ft_package at False."""
    for launch in job.ft_launches():
        state, place, _ = ft_switch(job, launch)
        if state == "off":
            yield Hit(place, "ft is set without enable_ft_package=True", "enable_ft_package=True")


def _trainers(job: Job) -> Iterator[tuple[Launch | None, PythonFile | None]]:
    """What trains with fault tolerance on: each launch with its file; a given Bridge script that nothing starts."""
    started = set()
    for launch in job.launches:
        python = training_file(job, launch)
        started.add(python.path if python else None)
        if ft_switch(job, launch)[0] == "on":
            yield launch, python
    for python in job.python:
        found = job.setting("ft.enable_ft_package")
        if python.path not in started and python.bridge and found is not None and found.certain and found.value is True:
            if found.place.file == python.path:
                yield None, python


def _checkpoint(job: Job, launch: Launch | None, field: str) -> tuple[str, object, Place]:
    """(state, value, place) of checkpoint.save or .load. state: set, absent, unknown."""
    found = setting(job, launch, f"checkpoint.{field}") if launch else job.setting(f"checkpoint.{field}")
    if found is None or not found.certain:
        return "unknown", HOLE, found.place if found else Place("")
    if found.value is MISSING or found.value is None or found.value == "":
        return "absent", None, found.place
    return ("set" if known(found.value) else "unknown"), found.value, found.place


def _may_be_overridden(job: Job, python: PythonFile | None, launch: Launch | None) -> bool:
    """True if arguments or files that are not known can still set what the file leaves at its default."""
    if python is None or not takes_overrides(python):
        return False
    return launch is None or unread_overrides(job, python, launch)


@rule(
    "checkpoint-save-missing",
    title="Fault tolerance without checkpoint.save",
    why="Bridge refuses to start: ValueError `checkpointing save dir must be set to enable fault tolerance`.",
    fix="Set checkpoint.save to a folder that all nodes share.",
    facts=("bridge.error.save-missing", "bridge.checkpoint.save"),
)
def checkpoint_save_missing(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """ft is on, and checkpoint.save is None in the configuration that the files build."""
    for launch, python in _trainers(job):
        state, _, place = _checkpoint(job, launch, "save")
        if state == "absent" and not _may_be_overridden(job, python, launch):
            yield Hit(
                place, "checkpoint.save is not set", 'CheckpointConfig(save="/shared/ckpt", load="/shared/ckpt", ...)'
            )


@rule(
    "checkpoint-load-missing",
    title="Restarts start from the beginning: no checkpoint.load",
    why="A restarted process loads only from checkpoint.load; without it every restart begins with the first weights "
    "and loses all that was saved.",
    fix="Set checkpoint.load to the folder of checkpoint.save.",
    facts=("bridge.behaviour.resume-needs-load", "bridge.checkpoint.load"),
)
def checkpoint_load_missing(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """ft is on, checkpoint.save is set, and checkpoint.load is None."""
    for launch, python in _trainers(job):
        state, _, place = _checkpoint(job, launch, "load")
        saved, save, _ = _checkpoint(job, launch, "save")
        if state != "absent" or saved == "absent" or _may_be_overridden(job, python, launch):
            continue
        target = repr(save) if known(save) else "cfg.checkpoint.save"
        yield Hit(place, "checkpoint.load is not set", f"cfg.checkpoint.load = {target}")


@rule(
    "checkpoint-load-elsewhere",
    title="Restarts do not load what the run saved",
    why="A restarted process loads from checkpoint.load; what the run saved to another folder is never read, and the "
    "restart begins where the job began.",
    fix="checkpoint.load = checkpoint.save; first weights belong to checkpoint.pretrained_checkpoint.",
    facts=("bridge.behaviour.resume-needs-load", "bridge.checkpoint.load", "bridge.recipe.checkpoint-folder"),
)
def checkpoint_load_elsewhere(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """ft is on, and checkpoint.load differs from checkpoint.save, or keeps a recipe's folder while save is changed."""
    for launch, python in _trainers(job):
        save, load = _checkpoint(job, launch, "save"), _checkpoint(job, launch, "load")
        if save[0] == load[0] == "set" and str(save[1]).rstrip("/") != str(load[1]).rstrip("/"):
            yield Hit(
                load[2],
                f"checkpoint.load is {load[1]!r} and checkpoint.save is {save[1]!r}",
                f"cfg.checkpoint.load = {save[1]!r}\ncfg.checkpoint.pretrained_checkpoint = {load[1]!r}",
            )
        elif _takes_a_recipe(job, python, launch) and save[2].file and load == ("unknown", HOLE, Place("")):
            if save[0] != "absent" and not _may_be_overridden(job, python, launch):
                yield Hit(
                    save[2],
                    "checkpoint.save is changed and checkpoint.load keeps the recipe's folder",
                    "cfg.checkpoint.load = cfg.checkpoint.save",
                    confidence="medium",
                )


def _takes_a_recipe(job: Job, python: PythonFile | None, launch: Launch | None) -> bool:
    """True if the configuration comes from one of Bridge's recipes and from nowhere else."""
    if python is None:
        return launch is not None and launch.script is not None and launch.script.text.endswith("run_recipe.py")
    built = any(found.name == "checkpoint" for found in python.settings)
    return "megatron.bridge.recipes" in python.text and not built and elsewhere(job, python) is None


#: Folders that exist on each node by itself, and variables that name one.
_NODE_LOCAL = re.compile(r"/(tmp|var/tmp|dev/shm|local|localscratch|local_scratch|scratch/local)(/|$)")
_NODE_LOCAL_VARIABLE = re.compile(r"\b(SLURM_TMPDIR|TMPDIR)\b")


@rule(
    "checkpoint-node-local",
    title="Checkpoints of several nodes on storage that one node alone sees",
    why="A node that replaces a lost one cannot read what the lost one saved, and no node reads the others' parts.",
    fix="Set checkpoint.save and checkpoint.load to a folder that all nodes share.",
    facts=("bridge.behaviour.resume-needs-load", "bridge.checkpoint.save"),
    severity="warning",
    confidence="medium",
)
def checkpoint_node_local(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """ft is on, there are several nodes, and checkpoint.save is below /tmp, /dev/shm, /local, $TMPDIR or the like."""
    for launch, python in _trainers(job):
        state, value, place = _checkpoint(job, launch, "save")
        if not place.file or not _several_nodes(job, launch):
            continue
        local = str(value) if state == "set" and _NODE_LOCAL.match(str(value)) else ""
        if state == "unknown":
            line = job.texts.get(place.file, "").split("\n")[place.line - 1 : place.line]
            found = _NODE_LOCAL_VARIABLE.search(line[0]) if line else None
            local = f"${found.group(1)}" if found and "save" in line[0] else ""
        if local:
            yield Hit(
                place,
                f"checkpoint.save is below {local}",
                'cfg.checkpoint.save = cfg.checkpoint.load = "/shared/ckpt"   # a folder that all nodes see',
            )


def _several_nodes(job: Job, launch: Launch | None) -> bool:
    if launch is None:
        counts = [c.arguments.get("nodes") for p in job.python for c in p.calls if c.name.endswith("Executor")]
        return any(isinstance(count, int) and count > 1 for count in counts)
    nodes, directive = launch.nodes(), launch.directives.get("nodes") if launch.directives else None
    return (nodes is not None and nodes[1] > 1) or bool(directive and directive.isdigit() and int(directive) > 1)


def _slot_is_set(job: Job) -> bool | None:
    """Whether Python assigns the ft slot; None if the files that could are not all given."""
    slots = [
        found for python in job.python for found in python.settings if found.name == "ft" and found.value is not None
    ]
    if slots:
        return True
    trainers = [
        python for python in job.python if python.bridge and re.search(r"\b(pretrain|finetune)\w*\(", python.text)
    ]
    if not trainers or any(elsewhere(job, python) for python in trainers):
        return None
    return False


def _with_target(job: Job, launch: Launch | None) -> bool:
    names = {name.lstrip("+"): value for name, value, _ in overrides(job, launch)}
    return "ft._target_" in names or "_target_" in names.get("ft", "")


@rule(
    "override-on-empty-slot",
    title="An `ft.*` override on a configuration whose `ft` is None",
    why="Hydra cannot override a key below None: the script ends at start-up with OverridesError.",
    fix="Set cfg.ft in Python before the overrides are applied, or override the whole slot with its _target_.",
    facts=("bridge.error.override-on-none", "bridge.config.ft"),
)
def override_on_empty_slot(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """A plain `ft.key=value` override, and no given Python file sets the slot."""
    for launch in [*job.launches, None]:
        words = [w for w in overrides(job, launch) if launch is None or w[2] in {a.place for a in launch.arguments}]
        if launch is None:
            words = [w for python in job.python for w in _python_overrides(python)]
        for name, value, place in words:
            if not name.startswith("ft.") or name == "ft._target_" or _with_target(job, launch):
                continue
            python = job.python_of(launch) if launch is not None else None
            if python is not None and reads_no_overrides(job, python):
                continue
            state = _slot_is_set(job)
            if state is None:
                yield Unsure(
                    place, f"{name}={shown(value)} fails unless the script has set cfg.ft; give the script too"
                )
            elif not state:
                yield Hit(place, f"{name}={shown(value)} while cfg.ft is None", FT_OVERRIDE)
            break


def _python_overrides(python: PythonFile) -> list[tuple[str, str, Place]]:
    pairs = [(word.text.partition("="), word.place) for word in python.overrides]
    return [(name, value, place) for (name, _, value), place in pairs]


@rule(
    "override-makes-dict",
    title="An override that leaves a plain dict in `ft`",
    why="Without _target_ the slot becomes a dict, and setup fails with AttributeError on enable_ft_package.",
    fix="Name the class: the override with _target_, or cfg.ft = FaultToleranceConfig(...) in Python.",
    facts=("bridge.behaviour.override-makes-dict", "bridge.config.ft"),
)
def override_makes_dict(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """`+ft.key=`, `++ft.key=`, `ft={...}` or a YAML mapping `ft:` without `_target_`."""
    if _slot_is_set(job):
        for name, value, place in overrides(job):
            if re.match(r"\+ft\.", name):
                yield Hit(
                    place,
                    f"{name}={shown(value)} while cfg.ft is set in Python: Hydra refuses to append what is there",
                    f"{name.lstrip('+')}={shown(value)}",
                )
        return
    for launch in [*job.launches, None]:
        words = overrides(job, launch)
        if launch is None:
            words = [w for python in job.python for w in _python_overrides(python)]
        if _with_target(job, launch):
            continue
        for name, value, place in words:
            if re.match(r"\++ft\.", name) or (name.lstrip("+") == "ft" and value.startswith("{")):
                yield Hit(place, f"{name}={shown(value)} makes cfg.ft a plain dict", FT_OVERRIDE)
                break
    for document in job.yaml:
        names = {found.name for found in document.settings}
        mapping = next((found for found in document.settings if found.name == "ft" and found.value == "{...}"), None)
        if mapping is not None and "ft._target_" not in names and "ft.enable_ft_package" in names:
            yield Hit(mapping.place, "`ft:` without _target_ makes cfg.ft a plain dict", f"ft:\n  _target_: {TARGET}")


@rule(
    "simulated-fault-at-once",
    title="A simulated fault that fires again after every restart",
    why="The fault is scheduled anew in each process: with no delay the run never gets past its start.",
    fix="Remove simulate_fault, or set simulated_fault_base_delay longer than set-up and the first save.",
    facts=("bridge.behaviour.fault-after-every-start", "bridge.ft.simulated-fault-base-delay"),
)
def simulated_fault_at_once(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """ft.simulate_fault is true and ft.simulated_fault_base_delay is 0 or not set."""
    found, delay = job.setting("ft.simulate_fault"), job.setting("ft.simulated_fault_base_delay")
    if found is None or not found.certain or found.value is not True:
        return
    enabled = job.setting("ft.enable_ft_package")
    if enabled is None or enabled.value is not True:
        return
    if delay is None or (delay.certain and (delay.value is MISSING or delay.value == 0)):
        yield Hit(
            found.place,
            "simulate_fault=True with simulated_fault_base_delay 0",
            "simulate_fault=False   # or, for a test: simulated_fault_base_delay=600",
        )
