# SPDX-License-Identifier: Apache-2.0
"""NeMo-Run scripts: what FaultTolerancePlugin and its launcher really put on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import PurePath

from ... import facts
from ..model import HOLE, Call, Job, PythonFile, known, matching, shown
from . import NVRX, Hit, Unsure, Versions, rule
from .reading import PLUGIN, TARGET, elsewhere
from .switch import reads_no_overrides

#: What undoes NeMo-Run's own --wait=60 --kill-on-bad-exit=1.
SRUN_ARGUMENTS = ("--kill-on-bad-exit=0", "--wait=0")
#: Bridge's own script that trains any recipe; it sets no ft and writes no flag file.
RUNNER = "run_recipe.py"
CONVERTER = f'script_args_converter_fn=lambda args: ["++ft._target_={TARGET}", "++ft.enable_ft_package=true"]'
SECTIONS_FILE = (
    'executor.env_vars["PET_FT_CFG_PATH"] = "/shared/ft.yaml"   # the file:\n'
    "fault_tolerance:\n"
    "  rank_section_timeouts: {setup: 600, step: 180, checkpointing: 420, warmup: 600}\n"
    "  rank_out_of_section_timeout: 600"
)


def _plugins(job: Job) -> Iterator[tuple[PythonFile, Call]]:
    for python in job.python:
        for call in python.calls:
            if call.name == PLUGIN:
                yield python, call


def _argument(call: Call, name: str) -> object:
    """The argument, or the plugin's default; HOLE where `**kwargs` may set it."""
    if name in call.arguments:
        return call.arguments[name]
    if call.open:
        return HOLE
    key = f"bridge.plugin.{name.replace('_', '-')}"
    return facts.in_file("bridge_ft.yaml")[key].says["default"]


def _executors(python: PythonFile) -> set[str]:
    return {call.name for call in python.calls if call.name.endswith("Executor")}


@rule(
    "plugin-heartbeats",
    title="FaultTolerancePlugin with heartbeat timeouts",
    why="Bridge sends no heartbeat: every rank of a healthy run is killed when the first timeout has passed, in every "
    "cycle.",
    fix="Pass None for both; sections do the watching.",
    facts=(
        "bridge.plugin.initial-rank-heartbeat-timeout",
        "bridge.plugin.rank-heartbeat-timeout",
        "bridge.behaviour.no-heartbeats",
        "nemo-run.launcher.falsy-is-absent",
    ),
)
def plugin_heartbeats(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """The plugin is used with its default heartbeat timeouts (1800 and 300 s) or with others."""
    for _, call in _plugins(job):
        told = []
        for name in ("initial_rank_heartbeat_timeout", "rank_heartbeat_timeout"):
            value = _argument(call, name)
            if known(value) and isinstance(value, (int, float)) and value:
                told.append(f"{name}={value:g}{'' if name in call.arguments else ' (default)'}")
        if told:
            yield Hit(
                call.place,
                f"{PLUGIN} with {', '.join(told)}",
                "initial_rank_heartbeat_timeout=None, rank_heartbeat_timeout=None",
            )


@rule(
    "plugin-without-sections",
    title="FaultTolerancePlugin without section timeouts",
    why="The plugin cannot pass section timeouts, so nothing is watched; with calc_ft_timeouts the run also ends with "
    "KeyError 'step' at the first save after 16 iterations.",
    fix="Name a YAML file with the sections in PET_FT_CFG_PATH, in the executor's env_vars.",
    facts=("nemo-run.launcher.fields", "bridge.error.calc-without-sections", "nvrx.option.ft-cfg-path"),
)
def plugin_without_sections(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """No PET_FT_CFG_PATH in the script's environment settings, or the file that it names has no sections."""
    for python, call in _plugins(job):
        path = python.environment.get("PET_FT_CFG_PATH")
        if path is not None:
            document = job.yaml_of(path) if path.replace(HOLE, "") else None
            if document is None:
                yield Unsure(call.place, "the file that PET_FT_CFG_PATH names was not given; give it too")
                continue
            if document.section and document.section.get("rank_section_timeouts"):
                continue
        elif "PET_FT_CFG_PATH" in python.text or elsewhere(job, python):
            yield Unsure(call.place, "whether the executor's environment names an ft YAML file (PET_FT_CFG_PATH)")
            continue
        calc = _argument(call, "calc_ft_timeouts")
        default = "" if "calc_ft_timeouts" in call.arguments else " (default)"
        converts = _argument(call, "script_args_converter_fn") is not None  # then only what it returns counts
        then = f" and calc_ft_timeouts=True{default}" if calc is True and not converts else ""
        yield Hit(call.place, f"{PLUGIN} with no section timeouts{then}", SECTIONS_FILE)


@rule(
    "plugin-overrides-empty-slot",
    title="FaultTolerancePlugin appends overrides that fail on `ft` = None",
    why="The plugin adds ft.enable_ft_package=true to the script's arguments; no library recipe sets ft, and Hydra "
    "cannot override a key below None: OverridesError at start-up.",
    fix="Give the plugin a converter that creates the slot, or set cfg.ft in the script before its overrides.",
    facts=("bridge.plugin.default-overrides", "bridge.error.override-on-none", "bridge.config.ft"),
)
def plugin_overrides_empty_slot(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """The plugin has no script_args_converter_fn, and the script that it starts does not set `ft`."""
    for python, call in _plugins(job):
        if _argument(call, "script_args_converter_fn") is not None:
            continue
        scripts = [c for c in python.calls if c.name == "Script" and known(c.arguments.get("path", HOLE))]
        given = [script for script in scripts if _given(job, str(script.arguments["path"]))]
        if any(s.name == "ft" and s.value is not None for p in job.python for s in p.settings):
            continue
        own = [script for script in scripts if str(script.arguments["path"]).endswith(RUNNER)]
        target = (given or own or [None])[0]
        if target is None:
            yield Unsure(call.place, "whether the script sets cfg.ft before the overrides; give the script too")
            continue
        trainer = _given(job, str(target.arguments["path"]))
        if trainer is not None and reads_no_overrides(job, trainer):
            continue
        if trainer is not None and (not trainer.bridge or elsewhere(job, trainer)):
            yield Unsure(call.place, f"whether {trainer.path} sets cfg.ft before the plugin's overrides")
            continue
        yield Hit(
            call.place,
            f"{PLUGIN} without script_args_converter_fn, and {target.arguments['path']} leaves cfg.ft None",
            CONVERTER,
        )


def _given(job: Job, path: str) -> PythonFile | None:
    return matching(path, job.python) if path else None


@rule(
    "plugin-requeues-for-ever",
    title="The Slurm job is requeued after a success",
    why="NeMo-Run's script requeues the job at its end unless the finished-flag file exists, and Bridge never writes "
    "it: a finished run is queued again, and again.",
    fix="Write the flag file when training is done, or give num_job_retries_on_failure=0: no requeue at all.",
    facts=("nemo-run.slurm.requeue", "nemo-run.slurm.finished-flag"),
)
def plugin_requeues_for_ever(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """FaultTolerancePlugin with a SlurmExecutor and retries, and no file mentions FAULT_TOL_FINISHED_FLAG_FILE."""
    if any("FAULT_TOL_FINISHED_FLAG_FILE" in text for text in job.texts.values()):
        return
    for python, call in _plugins(job):
        executors = _executors(python)
        retries = _argument(call, "num_job_retries_on_failure")
        if "SlurmExecutor" not in executors or retries == 0:
            continue
        paths = [str(c.arguments.get("path", "")) for c in python.calls if c.name == "Script"]
        absent = [path for path in paths if not (path.endswith(RUNNER) or _given(job, path))]
        if absent:
            name = PurePath(shown(absent[0])).name if absent[0].replace(HOLE, "") else "the training script"
            yield Unsure(
                call.place,
                "whether a finished job stays finished (the script must write $FAULT_TOL_FINISHED_FLAG_FILE, or "
                f"num_job_retries_on_failure=0): {name} was not given; give it too",
            )
            continue
        yield Hit(
            call.place,
            f"{PLUGIN} on SlurmExecutor, and nothing writes $FAULT_TOL_FINISHED_FLAG_FILE",
            "# last lines of the training script:\n"
            "import os, pathlib\n"
            'if flag := os.environ.get("FAULT_TOL_FINISHED_FLAG_FILE"):\n'
            "    pathlib.Path(flag).touch()\n"
            f"# or, if no job is to be requeued at all: {PLUGIN}(num_job_retries_on_failure=0, ...)",
        )


@rule(
    "plugin-executor-unsupported",
    title="An executor that does not run ft_launcher, or drops its restarts",
    why="Only the Slurm and DGX Cloud executors set the fault-tolerance launcher up, and DGX Cloud drops max_restarts.",
    fix="Use SlurmExecutor, or start ft_launcher yourself.",
    facts=("nemo-run.executors", "nemo-run.dgxcloud-ignores-max-restarts"),
)
def plugin_executor_unsupported(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """FaultTolerancePlugin with a DGX Cloud, Lepton, SkyPilot or Kubernetes executor only."""
    works = set(facts.in_file("nemo_run.yaml")["nemo-run.executors"].says["executors"])
    for python, call in _plugins(job):
        executors = _executors(python) - {"LocalExecutor"}
        if executors == {"DGXCloudExecutor"}:
            yield Hit(
                call.place,
                f"{PLUGIN} with DGXCloudExecutor: num_in_job_restarts is dropped",
                'executor.env_vars["PET_MAX_RESTARTS"] = "3"',
                severity="error",
                confidence="medium",
            )
        elif executors and not executors & works:
            yield Hit(
                call.place,
                f"{PLUGIN} with {', '.join(sorted(executors))}",
                "executor = run.SlurmExecutor(...)",
                confidence="medium",
            )


@rule(
    "nemo-run-launcher-bare",
    title="NeMo-Run's fault-tolerance launcher without any setting",
    why="It then adds --ignore-missing-fault-tol-cfg, which ft_launcher refuses: exit code 2 before any rank starts.",
    fix="Set at least max_restarts.",
    facts=("nemo-run.launcher.no-arguments", "nvrx.removed.ignore-missing-fault-tol-cfg"),
)
def nemo_run_launcher_bare(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """run.FaultTolerance() or launcher="ft" with none of the settings that reach the command line."""
    fields = facts.in_file("nemo_run.yaml")["nemo-run.launcher.fields"].says["fields"]
    for python in job.python:
        if PLUGIN in python.text:
            continue
        for call in python.calls:
            if call.name != "FaultTolerance" or call.open:
                continue
            values = [call.arguments.get(field) for field in fields]
            if all(value is None for value in values):
                yield Hit(call.place, "the launcher has no setting", "run.FaultTolerance(max_restarts=3)")


@rule(
    "nemo-run-kill-on-bad-exit",
    title="NeMo-Run's srun kills the whole step when one launcher exits",
    why="NeMo-Run passes --wait=60 --kill-on-bad-exit=1: the exit of a launcher on a bad node takes the healthy ones "
    "down, at once if it failed and after a minute in any case.",
    fix='srun_args=["--kill-on-bad-exit=0", "--wait=0"] on the executor; a later argument wins.',
    facts=(
        "nemo-run.slurm.srun-arguments",
        "slurm.kill-on-bad-exit",
        "slurm.wait",
        "nvrx.behaviour.unhealthy-node-exits-1",
    ),
    holds={NVRX: ">=0.7.0"},
    severity="warning",
    confidence="medium",
)
def nemo_run_kill_on_bad_exit(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """FaultTolerancePlugin with a SlurmExecutor of several nodes whose srun_args do not say otherwise."""
    for python, call in _plugins(job):
        missing = [argument for argument in SRUN_ARGUMENTS if argument.partition("=")[0] not in python.text]
        if not missing:
            continue
        for executor in python.calls:
            nodes = executor.arguments.get("nodes", 1)
            if executor.name != "SlurmExecutor" or executor.open:
                continue
            if nodes == HOLE:
                yield Unsure(
                    executor.place,
                    f"how many nodes SlurmExecutor has; with several it needs srun_args={json.dumps(SRUN_ARGUMENTS)}",
                )
            if not isinstance(nodes, int) or nodes < 2:
                continue
            arguments = executor.arguments.get("srun_args")
            if arguments is not None and not known(arguments):
                continue
            own = list(arguments) if isinstance(arguments, list) else []
            yield Hit(
                executor.place,
                f"SlurmExecutor with {nodes} nodes and srun_args={own or None}",
                f"srun_args={json.dumps([*own, *missing])}",
            )


@rule(
    "plugin-with-nsys",
    title="FaultTolerancePlugin together with NsysPlugin",
    why="Bridge declares the two incompatible and nothing stops them: nsys then wraps the launcher of the run that is "
    "to be restarted.",
    fix="Profile in a run without the fault-tolerance plugin.",
    facts=("bridge.plugin.no-nsys",),
    severity="warning",
)
def plugin_with_nsys(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """One list of plugins holds both."""
    for python in job.python:
        for constructed in python.lists:
            names = [call.name for call in constructed]
            if PLUGIN in names and "NsysPlugin" in names:
                place = constructed[names.index("NsysPlugin")].place
                yield Hit(place, "NsysPlugin in the same list as FaultTolerancePlugin", "remove NsysPlugin(...) here")
