# SPDX-License-Identifier: Apache-2.0
"""The generated parts of the pages.

A page asks for one with `<!-- generated: NAME -->` and `<!-- end generated -->`; the function of that name here writes
what stands between.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

from .. import facts
from ..facts import Fact
from . import results
from .markdown import answer, code, seconds, table, value

BLOCKS: dict[str, Callable[[], str]] = {}

#: Distribution -> its name in prose.
NAMES = {
    "megatron-bridge": "Megatron Bridge",
    "megatron-core": "megatron-core",
    "nvidia-resiliency-ext": "NVRx",
    "nemo-run": "NeMo-Run",
}
BRIDGE_FACTS = "bridge_ft.yaml"
LAUNCHER_FACTS = "nvrx_launcher.yaml"
LOG_FACTS = "log_lines.yaml"
EXIT_CODE_FACTS = "exit_codes.yaml"
NVRX = "nvidia-resiliency-ext"
NVRX_VERSIONS = ("0.7.0", "0.6.0")

#: The options of ft_launcher that a Bridge user sets or should know -> what for.
OPTIONS: Mapping[str, str] = {
    "--nnodes": "nodes; MIN:MAX with hot spares",
    "--nproc-per-node": "ranks on each node",
    "--max-restarts": "restarts of the whole job",
    "--ft-rank-section-timeouts": "timeout of each section, as NAME:SECONDS,...",
    "--ft-rank-out-of-section-timeout": "timeout outside every section",
    "--ft-workload-check-interval": "time between two looks of the rank monitor",
    "--ft-initial-rank-heartbeat-timeout": "must stay off: Bridge sends no heartbeats",
    "--ft-rank-heartbeat-timeout": "must stay off: Bridge sends no heartbeats",
    "--ft-safety-factor": "multiplier of learned timeouts",
    "--ft-cfg-path": "YAML file with the same settings",
    "--ft-checkpoint-iteration-file": "file with the last saved iteration; turns progress tracking on",
    "--ft-max-no-progress-cycles": "cycles without a new checkpoint before NVRx stops",
    "--ft-no-restart-exit-code": "exit code of that stop",
    "--ft-rank-termination-signal": "signal for a rank that is overdue",
    "--workers-stop-timeout": "wait for the ranks to stop before they are killed",
    "--term-timeout": "wait for the ranks after a SIGTERM",
    "--ft-gpu-memory-reclaim-timeout": "wait for GPU memory before a restart",
    "--rdzv-backend": "c10d is the one supported",
    "--rdzv-endpoint": "HOST:PORT that every node can reach",
    "--rdzv-id": "the same on all nodes of a job",
    "--monitor-interval": "time between two looks at the processes",
}

#: Fields of FaultTolerancePlugin -> what to give, and why.
PLUGIN_FIELDS: Mapping[str, str] = {
    "enable_ft_package": "keep",
    "num_in_job_restarts": "keep, or more",
    "num_job_retries_on_failure": "0, or write the flag file: a finished job is requeued too",
    "calc_ft_timeouts": "with script_args_converter_fn only what the function returns counts; fails without sections",
    "initial_rank_heartbeat_timeout": "None: Bridge sends no heartbeats",
    "rank_heartbeat_timeout": "None: Bridge sends no heartbeats",
    "script_args_converter_fn": "a function that creates the `ft` object",
}

#: Log lines in the order in which a run can show them.
LOG_LINES: Sequence[str] = (
    "log.bridge.ft-initialized",
    "log.bridge.ft-timeouts-loaded",
    "log.bridge.ft-timeouts-saved",
    "log.bridge.checkpoint-saved",
    "log.nvrx.section-overdue",
    "log.nvrx.out-of-section-overdue",
    "log.nvrx.no-initial-heartbeat",
    "log.torch.worker-failed",
    "log.nvrx.worker-group-failed",
    "log.nvrx.joining-restart",
    "log.bridge.checkpoint-loaded",
    "log.bridge.checkpoint-none-found",
    "log.nvrx.no-progress-stop",
    "log.nvrx.launcher-exit-0",
    "log.nvrx.launcher-exit-1",
    "log.nvrx.launcher-exit-no-restart",
    "log.bridge.ft-closed",
)


def block(name: str) -> Callable[[Callable[[], str]], Callable[[], str]]:
    """Register the function that writes the block of this name."""

    def register(function: Callable[[], str]) -> Callable[[], str]:
        BLOCKS[name] = function
        return function

    return register


@block("drill-summary")
def drill_summary() -> str:
    """One sentence a version: how many drills, and the slowest detection over its timeout."""
    lines = []
    for version, group in _by_version().items():
        passed = sum(result["passed"] for result in group)
        lines.append(f"- NVRx {version}: {passed} of {len(group)} drills showed what they must{_slowest(group)}.")
    resumed = [result for result in results.gpu() if result["passed"] and result["measured"].get("resume_seconds")]
    if resumed:
        label = resumed[0]["label"].removeprefix("GPU: ")
        lines.append(f"- On a GPU ({label}): faults detected, restarted and resumed: {len(resumed)}.")
    return "\n".join(lines) or "Nothing yet."


def _slowest(group: Sequence[results.Result]) -> str:
    late = [
        result["measured"]["detection_seconds"] - timeout
        for result in group
        if (timeout := result["configured"]["timeout"]) is not None
        and result["measured"]["detection_seconds"] is not None
    ]
    return f"; every hang was noticed at most {max(0.0, *late):.1f} s after its timeout" if late else ""


@block("drill-results")
def drill_results() -> str:
    """What a restart costs: the drills of the newest NVRx that measured one. BENCHMARK.md has every drill."""
    measured = [
        result
        for result in results.drills()
        if result["versions"][NVRX] == NVRX_VERSIONS[0] and result["measured"]["restart_seconds"] is not None
    ]
    header = ("drill", *DRILL_COLUMNS)
    rows = ((code(result["drill"]), *_drill_cells(result)) for result in measured)
    return f"{table(header, rows)}\n\nNVRx {NVRX_VERSIONS[0]}. Every drill: [BENCHMARK.md](../BENCHMARK.md)."


def every_drill() -> str:
    """Every drill, also those that have nothing to restart, and whether it showed what it must."""
    header = ("drill", "NVRx", *DRILL_COLUMNS, "passed")
    rows = (
        (code(result["drill"]), result["versions"][NVRX], *_drill_cells(result), answer(result["passed"]))
        for result in results.drills()
    )
    return table(header, rows)


DRILL_COLUMNS = (
    "noticed by", "timeout (s)", "detection (s)", "restart (s)", "resume (s)", "lost iterations", "final weights equal",
)  # fmt: skip


def _drill_cells(result: results.Result) -> tuple[str, ...]:
    """One cell for each of DRILL_COLUMNS."""
    measured = result["measured"]
    lost = result["lost_iterations"]
    return (
        measured["detected_by"] or "-",
        seconds(result["configured"]["timeout"]),
        *(seconds(measured[name]) for name in ("detection_seconds", "restart_seconds", "resume_seconds")),
        "-" if lost is None else str(lost),
        answer(result["final_state_equal"]),
    )


@block("ft-sections")
def ft_sections() -> str:
    """The sections to give timeouts to: those that Bridge opens, and NVRx's warmup."""
    rows = [(code(fact.says["name"]), _opened(fact.says)) for fact in _facts(BRIDGE_FACTS, "section")]
    if all("warmup" not in row[0] for row in rows):
        waits = facts.in_file(LAUNCHER_FACTS)["nvrx.behaviour.out-of-section-waits-for-step"].says["statement"]
        rows.append((code("warmup"), f"never by Bridge; its presence counts. {waits}"))
    return table(("section", "opened"), rows)


def _opened(says: Mapping[str, Any]) -> str:
    return f"{says['opened']}; closed {says['closed']}" if "closed" in says else says["opened"]


@block("ft-options")
def ft_options() -> str:
    """The options that a Bridge user needs, with the default of each NVRx version."""
    header = ("option", "for", "key in the YAML file", *(f"default in {version}" for version in NVRX_VERSIONS))
    return table(header, (_option_row(name, purpose) for name, purpose in OPTIONS.items()))


def _option_row(name: str, purpose: str) -> tuple[str, ...]:
    found = [_find("option", "name", name, version) for version in NVRX_VERSIONS]
    keys = [option.says["yaml_key"] for option in found if option and option.says.get("yaml_key")]
    defaults = [_default(option, version) for option, version in zip(found, NVRX_VERSIONS, strict=True)]
    return (code(name), purpose, code(keys[0]) if keys else "-", *defaults)


def _default(option: Fact | None, version: str) -> str:
    """What is in force where neither the command line nor the YAML file says anything."""
    if option is None:
        return "no such option"
    if option.says["default"] is not None or not option.says.get("yaml_key"):
        return value(option.says["default"])
    key = _find("yaml_key", "key", option.says["yaml_key"], version)
    return value(key.says.get("default") if key else None)


def _find(kind: str, attribute: str, wanted: str, version: str) -> Fact | None:
    found = _facts(LAUNCHER_FACTS, kind)
    return next((fact for fact in found if fact.says[attribute] == wanted and fact.holds_for(NVRX, version)), None)


def _facts(file: str, kind: str) -> list[Fact]:
    return [fact for fact in facts.in_file(file).values() if fact.kind == kind]


@block("ft-plugin-defaults")
def ft_plugin_defaults() -> str:
    """What FaultTolerancePlugin does unless told otherwise, and what to tell it."""
    defaults = {
        fact.says["field"]: fact.says["default"]
        for fact in _facts(BRIDGE_FACTS, "config_field")
        if fact.says["class"] == "FaultTolerancePlugin"
    }
    rows = ((code(name), code(defaults[name]), advice) for name, advice in PLUGIN_FIELDS.items())
    return table(("field of FaultTolerancePlugin", "default", "give"), rows)


@block("ft-log-lines")
def ft_log_lines() -> str:
    """The lines to look for: text, who prints them, what they mean and do not mean."""
    from ..logs.signatures import SIGNATURES

    meanings = {signature.fact: signature for signature in SIGNATURES}
    rows = []
    for name in LOG_LINES:
        says, signature = facts.in_file(LOG_FACTS)[name].says, meanings[name]
        rows.append((code(str(says["text"]).strip()), f"{signature.means} {signature.not_means}".strip()))
    return table(("line", "means"), rows)


@block("exit-codes")
def exit_codes() -> str:
    """Exit codes by program."""
    rows = (
        (fact.says["program"], str(fact.says["code"]), _sentence(fact)) for fact in _facts(EXIT_CODE_FACTS, "exit_code")
    )
    return table(("program", "code", "means"), rows)


def _sentence(fact: Fact) -> str:
    versions = ", ".join(f"{NAMES[package]} {versions}" for package, versions in fact.holds.items())
    return f"{fact.says['means']} ({versions})" if versions else str(fact.says["means"])


def _by_version() -> Mapping[str, Sequence[results.Result]]:
    found: dict[str, list[results.Result]] = {version: [] for version in NVRX_VERSIONS}
    for result in results.drills():
        found[result["versions"][NVRX]].append(result)
    return {version: group for version, group in found.items() if group}
