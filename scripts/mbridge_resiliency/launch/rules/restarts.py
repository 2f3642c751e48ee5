# SPDX-License-Identifier: Apache-2.0
"""Whether a failure leads to a restart, and whether anybody learns how the job ended."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..model import HOLE, MISSING, Job, Launch, shown
from . import NVRX, Hit, Unsure, Versions, rule


@rule(
    "no-restarts",
    title="ft_launcher without restarts",
    why="The default is 0: a hang is detected and the ranks are killed, and then the job ends instead of restarting.",
    fix="Set --max-restarts, before the script's path.",
    facts=("nvrx.option.max-restarts",),
)
def no_restarts(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """--max-restarts is absent or 0, and nothing in the files starts the job again."""
    for launch in job.ft_launches():
        value = launch.value("--max-restarts")
        if launch.repeats:
            continue
        if value == HOLE:
            yield Unsure(launch.place_of("--max-restarts"), "--max-restarts is not known; 0 would mean no restart")
        elif value is MISSING:
            behind = [w for w in launch.arguments if w.text.partition("=")[0] in ("--max-restarts", "--max_restarts")]
            where, fix = "", "--max-restarts=3"
            if behind and launch.script is not None:
                where = f" ({shown(behind[0].text)} stands after the script's path and belongs to the script)"
                fix = f"move --max-restarts before {shown(launch.script.text)}"
            yield Hit(launch.place, f"no --max-restarts{where}", fix)
        elif str(value).strip() == "0":
            yield Hit(launch.place_of("--max-restarts"), "--max-restarts=0", "--max-restarts=3")


@rule(
    "kill-on-bad-exit",
    title="srun kills the whole step when one launcher exits",
    why="The launcher on a bad node exits with an error so that the others go on without it; --kill-on-bad-exit takes "
    "them down with it.",
    fix="srun --kill-on-bad-exit=0 around ft_launcher.",
    facts=("nvrx.behaviour.unhealthy-node-exits-1", "slurm.kill-on-bad-exit"),
    holds={NVRX: ">=0.7.0"},
    severity="warning",
)
def kill_on_bad_exit(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """--kill-on-bad-exit=1, -K or SLURM_KILL_BAD_EXIT=1 around ft_launcher on more than one node; an error with hot
    spares."""
    for launch in job.ft_launches():
        if launch.step is None or launch.value("--ft-segment-health-check-dir") is not MISSING:
            continue
        if launch.directives is not None and launch.directives.get("array"):
            continue  # there the end of the whole array task is what brings its replacement
        value = launch.step.options.get("kill-on-bad-exit")
        source = f"--kill-on-bad-exit={value}"
        if value is None:
            value = launch.environment.get("SLURM_KILL_BAD_EXIT")
            source = f"SLURM_KILL_BAD_EXIT={value}"
        if value is None or value == HOLE or value == "0":
            continue
        nodes = launch.nodes()
        if nodes == (1, 1):
            continue
        spares = nodes is not None and nodes[1] > nodes[0]
        yield Hit(
            launch.step.place,
            f"srun with {source} around ft_launcher" + (f" with hot spares ({nodes[0]}:{nodes[1]})" if spares else ""),
            "srun --kill-on-bad-exit=0",
            severity="error" if spares else None,
        )


@rule(
    "spares-without-no-kill",
    title="Hot spares in a Slurm job that ends with its first failed node",
    why="Slurm ends the job, or the step, when one of its nodes fails, so the spare never takes over.",
    fix="Give --no-kill to both: #SBATCH --no-kill, and srun --no-kill --wait=0 --kill-on-bad-exit=0.",
    facts=("slurm.no-kill", "nvrx.option.nnodes"),
    severity="warning",
    confidence="medium",
)
def spares_without_no_kill(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """--nnodes=MIN:MAX with MIN below MAX, and --no-kill is absent from the #SBATCH lines or from srun."""
    submitted_so = any(re.search(r"\bsbatch\b[^\n]*\s(--no-kill|-k)\b", text) for text in job.texts.values())
    for launch in job.ft_launches():
        nodes, step, directives = launch.nodes(), launch.step, launch.directives
        if nodes is None or nodes[0] >= nodes[1] or (directives is not None and directives.get("array")):
            continue
        if "1" in (step.options.get("nodes") if step else None, directives.get("nodes") if directives else None):
            continue  # a job of its own for each node: the others outlive it
        absent = []
        if directives is not None and directives.get("no-kill") is None and not submitted_so:
            absent.append("#SBATCH --no-kill")
        if step is not None and not {"no-kill", "..."} & step.options.keys():
            absent.append("srun --no-kill --wait=0 --kill-on-bad-exit=0")
        if absent:
            where = " nor ".join(line.split()[0] for line in absent)
            told = f"neither {where} has --no-kill" if len(absent) > 1 else f"{where} has no --no-kill"
            place = step.place if step is not None else launch.place
            yield Hit(place, f"hot spares ({nodes[0]}:{nodes[1]}), and {told}", "\n".join(absent))


@rule(
    "exit-status-lost",
    title="The exit status of ft_launcher is lost",
    why="The scheduler, a requeue and any dependent job see the training as successful whatever happened.",
    fix="Keep the status: `set -euo pipefail`, `wait $!`, or `rc=$?` right after it and `exit $rc` at the end.",
    facts=("shell.status-of-pipe", "shell.status-of-wait"),
    severity="warning",
)
def exit_status_lost(job: Job, versions: Versions) -> Iterator[Hit | Unsure]:
    """The status is replaced by a pipe without pipefail, by `wait` without a process id, by `|| true`, by an `if` that
    passes nothing on, or by a later command."""
    for launch in job.ft_launches():
        if launch.lost_status is None:
            continue
        reason, place = launch.lost_status
        yield Hit(place, f"the status of ft_launcher ({launch.place}) is lost: {reason}", _kept(launch, reason))


def _kept(launch: Launch, reason: str) -> str:
    if "pipe" in reason and "later" not in reason:
        return "set -o pipefail"
    if "pipe" in reason:
        return "set -o pipefail   # before the pipe\nrc=$?   # right after it\nexit $rc   # as the script's last line"
    if "wait" in reason:
        return "wait $!"
    if "||" in reason:
        return "|| rc=$?   # instead\nexit $rc   # as the script's last line"
    if "`if`" in reason:
        return "exit 1   # in the branch of the failure"
    return "rc=$?   # right after the command\nexit $rc   # as the script's last line"
