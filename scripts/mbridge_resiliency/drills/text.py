# SPDX-License-Identifier: Apache-2.0
"""A drill's result for a person: a short timeline with seconds, the verdict, and where the logs are."""

from __future__ import annotations

from .job import LOGS
from .result import Result


def describe(result: Result) -> str:
    """The text form of the result."""
    drill = result.drill
    versions = ", ".join(f"{package} {version}" for package, version in result.environment.versions.items())
    lines = [
        f"{drill.name}: {drill.title}",
        f"  {drill.broken}",
        f"  with: {result.label}",
        f"  versions: {versions}",
        f"  command: {result.run.command}",
        "  timeline:",
        *(f"    {line}" for line in _timeline(result)),
    ]
    told = [check for check in result.checks if check.what.startswith("check_logs")]
    shown = [check for check in result.checks if check not in told]
    for check in shown + told:
        if not check.passed:
            lines.append(f"  NOT SHOWN: {check.what}: wanted {check.wanted!r}, saw {check.seen!r}")
    if all(check.passed for check in told):
        lines.append("  check_logs tells the same story from the logs alone")
    if result.final_state_equal is not None:
        same = "equal, bit for bit" if result.final_state_equal else "NOT EQUAL"
        lines.append(f"  final weights: {same}, to the undisturbed run (computed in one process: the same sums)")
    if drill.launch.starts > 1:
        lines.append(
            f"  started {drill.launch.starts} times: the last start went on from iteration "
            f"{result.measured.resumed_from}; iterations lost: {result.measured.lost_iterations}"
        )
    if result.learned:
        timeouts = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in result.learned.items())
        lines.append(f"  learned timeouts in ft_state.json: {timeouts}")
    if result.run.orphans:
        lines.append(f"  {result.run.orphans} processes outlived their launcher and were ended by the drill")
    lines.append(
        f"  {'passed' if result.passed else 'NOT PASSED'} in {result.run.seconds:.0f} s; "
        f"logs: {result.run.folder / LOGS}"
    )
    return "\n".join(lines)


def _timeline(result: Result) -> list[str]:
    drill, measured = result.drill, result.measured
    lines = []
    fault = drill.job.fault
    offset = measured.detection_seconds or 0.0
    if fault is not None:
        lines.append(
            f"{0:6.2f} s  fault: {fault.kind}, rank {fault.rank}, iteration {fault.iteration}, in {fault.where}"
        )
    if measured.detected_by is not None:
        by = measured.detected_by + (f" {measured.section!r}" if measured.section else "")
        timeout = f", timeout {drill.timeout:g} s" if drill.timeout else ""
        lines.append(f"{offset:6.2f} s  noticed by {by}{timeout}")
    elif drill.watch_seconds is not None:
        lines.append(f"{drill.watch_seconds:6.2f} s  nothing noticed it; the drill ended the job")
    if measured.restart_seconds is not None:
        lines.append(f"{offset + measured.restart_seconds:6.2f} s  workers started again")
    if measured.resume_seconds is not None:
        lines.append(
            f"{offset + measured.resume_seconds:6.2f} s  first iteration after the resume "
            f"from iteration {measured.resumed_from}; iterations lost: {measured.lost_iterations}"
        )
    return lines
