# SPDX-License-Identifier: Apache-2.0
"""What each known log line means, and what it does not mean.

A signature names a log_line fact. Its pattern and its literal are derived from the fact's text, so the text stands
in one place. A match is an observation: which rank or node is at fault is inferred later, from all of them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property, lru_cache

from .. import facts

#: Characters of the shortest literal: shorter ones are shared by more signatures and found on more lines.
SHORTEST_LITERAL = 9
#: Variable part of a fact's text -> what it looks like. Any other name stands for the shortest text that fits.
_INTEGER = " *[0-9]+"
_LIKE = {
    name: _INTEGER
    for name in (
        "count cycle device from_iteration group_rank invocation iteration left local_rank made max_cycles "
        "max_restarts minutes needed nproc_per_node pid rank seconds signal to_iteration train_iters world_size"
    ).split()
} | {
    "elapsed": "[0-9.]+",
    "timeout": "[0-9.]+",
    "exitcode": "-?[0-9]+",
    "kind": ".{0,20}?",
    "role": r"[^\[\]]+",
    "check": "[A-Za-z][A-Za-z ]+?",
    "variable": r"\w+",
    "signal_name": r"\w+",
}
_OPTIONAL = {"group_rank": "None|", "signal": "[A-Z]+|", "minutes": "[0-9.]+|"}
_VARIABLE = re.compile(r"\$?\{(\w+)\}")


def text_of(fact_id: str) -> str:
    """The text of a log_line fact."""
    return str(facts.in_file("log_lines.yaml")[fact_id].says["text"])


def pattern(text: str) -> re.Pattern[str]:
    """A fact's text as a regular expression with a group for each variable part."""
    parts: list[str] = []
    position = 0
    for variable in _VARIABLE.finditer(text):
        name = variable[1]
        rest = text[variable.end() :]
        text_like = (".*" if name == "message" else ".+") + ("?" if rest else "")
        like = _OPTIONAL.get(name, "") + _LIKE.get(name, text_like)
        parts += [re.escape(text[position : variable.start()]), f"(?P<{name}>{like})"]
        position = variable.end()
    return re.compile("".join([*parts, re.escape(text[position:])]))


@dataclass(frozen=True)
class Signature:
    """One line worth noticing.

    Attributes:
        fact: the id of its log_line fact.
        event: the kind of event that a match yields.
        means: what a match shows.
        not_means: what it is often taken for and does not show.
        dense: printed so often that the first and the last between two other events are enough.
        follow: how many of the lines below belong to it.
        frame: the fact of the line that carries its text as {message}.
    """

    fact: str
    event: str
    means: str
    not_means: str = ""
    dense: bool = False
    follow: int = 0
    frame: str = ""

    @cached_property
    def text(self) -> str:
        """The line as upstream formats it, without the blanks around it: collectors drop those."""
        text = text_of(self.fact).strip()
        return text_of(self.frame).replace("{message}", text) if self.frame else text

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The text as a regular expression with a group for each variable part."""
        return pattern(self.text)

    @cached_property
    def fixed(self) -> list[str]:
        """The text's fixed parts, between its variable ones."""
        return _VARIABLE.split(self.text)[::2]


_BARRIER = "log.core.barrier"

SIGNATURES = (
    # Megatron Bridge: fault tolerance
    Signature(
        "log.bridge.ft-initializing",
        "ft_initializing",
        "Bridge starts its fault-tolerance client on rank 0.",
        "It is not on yet: the next line may be an error.",
    ),
    Signature(
        "log.bridge.ft-initialized",
        "ft_initialized",
        "The client is connected, with these timeouts.",
        "With sections=[] nothing is watched: hang detection is off although the client runs.",
    ),
    Signature(
        "log.bridge.ft-timeouts-loaded",
        "ft_timeouts_loaded",
        "ft_state.json replaces the timeouts of the command line.",
        "Nobody asked for it: the file is enough.",
    ),
    Signature("log.bridge.ft-timeouts-saved", "ft_timeouts_saved", "Learned timeouts were written for later runs."),
    Signature(
        "log.bridge.ft-closed",
        "ft_closed",
        "The client was shut down in order.",
        "Planned stops print it too: it does not say that training is complete.",
    ),
    Signature("log.bridge.ft-simulated-fault", "simulated_fault", "This rank hangs or kills itself on request."),
    # Megatron Bridge: training
    Signature("log.bridge.training-loop-started", "loop_started", "Training starts at this iteration."),
    Signature("log.bridge.iteration", "iteration", "This iteration is complete on every rank.", dense=True),
    Signature("log.bridge.checkpoint-saving", "saving", "A save has begun.", "It may never finish."),
    Signature(
        "log.bridge.checkpoint-scheduled",
        "saving",
        "An asynchronous save is under way.",
        "It counts as saved only when the success line follows, at a later iteration.",
    ),
    Signature("log.bridge.checkpoint-saved", "saved", "A resume can use this iteration."),
    Signature(
        "log.bridge.checkpoint-saved-local",
        "saved_local",
        "This iteration is on the nodes' own disks.",
        "A replaced node without a replica cannot use it.",
    ),
    Signature("log.bridge.checkpoint-loading", "loading", "The run tries to resume from this iteration."),
    Signature("log.bridge.checkpoint-loaded", "loaded", "The run resumed from this iteration."),
    Signature(
        "log.bridge.checkpoint-none-found",
        "from_scratch",
        "No checkpoint was found; weights are random.",
        "In a first run this is normal; after a save it throws the work away. Where it is missing, nothing is said: "
        "Bridge prints nothing if the folder of checkpoint.load is empty.",
    ),
    Signature(
        "log.bridge.checkpoint-exit-on-missing",
        "load_failed",
        "No checkpoint was found and the run ends.",
        "The exit code is 0: no launcher sees a failure.",
    ),
    Signature("log.bridge.checkpoint-metadata-invalid", "load_failed", "The tracker file is damaged; the run ends."),
    Signature("log.bridge.checkpoint-optimizer-unloadable", "load_failed", "The optimizer state does not fit."),
    Signature("log.bridge.checkpoint-rng-unloadable", "load_failed", "The random-number state does not fit."),
    Signature("log.bridge.checkpoint-rerun-unloadable", "load_failed", "The re-run state does not fit; the run ends."),
    Signature("log.bridge.signal-received", "signal_received", "Rank 0 got the signal and stops after this step."),
    Signature(
        "log.bridge.exit-on-signal", "planned_exit", "The job stopped itself because it was asked to.", frame=_BARRIER
    ),
    Signature(
        "log.bridge.exit-on-duration",
        "planned_exit",
        "The job stopped itself when its time was used up.",
        frame=_BARRIER,
    ),
    Signature(
        "log.bridge.exit-on-interval", "planned_exit", "The job stopped itself at its exit interval.", frame=_BARRIER
    ),
    Signature(
        "log.bridge.exit-on-straggler", "planned_exit", "The job stopped itself because a GPU was slow.", frame=_BARRIER
    ),
    Signature(
        "log.bridge.training-done",
        "training_done",
        "The last iteration is complete.",
        "The process has not ended yet: teardown can still hang.",
        frame=_BARRIER,
    ),
    Signature(
        "log.bridge.pretrain-failed",
        "pretrain_failed",
        "pretrain() was left by this exception on this rank.",
        "With SystemExit: 0 it is a planned stop, not a failure.",
    ),
    # Megatron Core
    Signature("log.core.unexpected-result", "bad_result", "The loss or gradient is NaN or infinite on this rank."),
    Signature(
        "log.core.unexpected-result-rerun", "bad_result", "The loss or gradient is NaN or infinite on this rank."
    ),
    # NVRx launcher
    Signature(
        "log.nvrx.launcher-started",
        "launcher_started",
        "ft_launcher starts on this node.",
        "A launcher without timeouts watches only for dead processes.",
    ),
    Signature("log.nvrx.launcher-nproc", "launcher_nproc", "Ranks on each node."),
    Signature("log.nvrx.launcher-max-restarts", "launcher_max_restarts", "Restarts that the whole job may use."),
    Signature("log.nvrx.cycle-event", "cycle_event", "The launcher's own account of a cycle, with times."),
    Signature("log.nvrx.rendezvous-joined", "node_joined", "This node takes part in the cycle."),
    Signature(
        "log.nvrx.worker-group-failed",
        "restarting",
        "This launcher saw the failure and restarts every rank.",
        "FAILED and UNHEALTHY do not tell a hang from a crash.",
    ),
    Signature("log.nvrx.joining-restart", "restarting", "Another node failed; this one restarts with it."),
    Signature("log.nvrx.workers-succeeded", "workers_succeeded", "Every rank of this node exited with code 0."),
    Signature("log.nvrx.death-signal", "launcher_signalled", "The launcher was told to stop and stops the ranks."),
    Signature("log.nvrx.exited-gracefully", "launcher_exit", "Told to stop, and every rank exited with code 0."),
    Signature("log.nvrx.launcher-exit-0", "launcher_exit", "The launcher ends with code 0."),
    Signature("log.nvrx.launcher-exit-1", "launcher_exit", "The launcher ends with code 1; the ranks' codes are here."),
    Signature("log.nvrx.launcher-exit-error", "launcher_exit", "The launcher ends with code 1."),
    Signature("log.nvrx.launcher-exit-no-restart", "launcher_exit", "NVRx decided that a restart is useless."),
    Signature("log.nvrx.no-progress-cycle", "no_progress_cycle", "No new checkpoint since the last restart."),
    Signature("log.nvrx.no-progress-stop", "no_progress_stop", "Restarting did not help, so NVRx stops."),
    Signature("log.nvrx.node-unhealthy", "node_unhealthy", "This node failed its health check and leaves."),
    Signature("log.nvrx.node-check-failed", "node_unhealthy", "This node failed its health check."),
    # NVRx rank monitor
    Signature(
        "log.nvrx.section-overdue",
        "overdue",
        "The rank did not leave the section in time; the monitor kills it.",
        "Healthy ranks that wait for the hung one are overdue too: this does not name the rank at fault.",
    ),
    Signature(
        "log.nvrx.out-of-section-overdue",
        "overdue",
        "The rank opened no section in time; the monitor kills it.",
        "Healthy ranks that wait for the hung one are overdue too: this does not name the rank at fault.",
    ),
    Signature(
        "log.nvrx.no-initial-heartbeat",
        "heartbeat_missing",
        "No heartbeat since the start; the monitor kills it.",
        "Bridge never sends heartbeats: the rank can be healthy.",
    ),
    Signature(
        "log.nvrx.no-subsequent-heartbeat",
        "heartbeat_missing",
        "Heartbeats stopped; the monitor kills the rank.",
        "Bridge never sends heartbeats.",
    ),
    # NVRx client
    Signature("log.nvrx.no-monitor", "no_monitor", "Fault tolerance is configured, but ft_launcher is not above."),
    Signature(
        "log.nvrx.monitor-stopped",
        "monitor_stopped",
        "A signal to the whole step stopped the rank monitor first.",
        "The rank then fails to report to it, whatever it was doing: it is not at fault.",
    ),
    # PyTorch
    Signature(
        "log.torch.worker-failed",
        "worker_failed",
        "The launcher found this local rank dead first.",
        "After a hang it names whichever rank the monitor killed first, often a healthy one.",
    ),
    Signature(
        "log.torch.root-cause",
        "root_cause",
        "torchelastic's first observed failure, with host and rank.",
        "First observed is not first: after a hang it names a healthy rank.",
        follow=7,
    ),
    Signature(
        "log.torch.nccl-timeout", "collective_timeout", "This rank waited in a collective.", "It is not at fault."
    ),
    Signature(
        "log.torch.gloo-timeout", "collective_timeout", "This rank waited in a collective.", "It is not at fault."
    ),
    Signature("log.torch.peer-closed", "peer_lost", "Another rank went away first.", "This rank is not at fault."),
    Signature("log.libc.peer-reset", "peer_lost", "Another rank went away first.", "This rank is not at fault."),
    Signature("log.torch.nccl-remote-error", "peer_lost", "Another rank went away.", "This rank is not at fault."),
    Signature(
        "log.torch.loader-worker-killed",
        "loader_killed",
        "A signal ended a worker of the data loader; its rank fails with it.",
        "The signal need not have been meant for it: ft_launcher's SIGTERM reaches the workers too.",
    ),
    Signature("log.torch.cuda-out-of-memory", "gpu_out_of_memory", "An allocation on this GPU failed."),
    # Python and Linux
    Signature(
        "log.python.traceback",
        "traceback",
        "An exception was printed.",
        "It may have been handled, or follow from another rank's failure.",
        follow=400,
    ),
    Signature("log.linux.oom-killed", "oom_killed", "The kernel killed this process for memory."),
    # Slurm
    Signature("log.slurm.time-limit", "time_limit", "Slurm ended the job at its time limit."),
    Signature("log.slurm.preempted", "preempted", "Slurm took the nodes for another job."),
    Signature("log.slurm.requeued", "requeued", "Slurm put the job back into the queue."),
    Signature("log.slurm.node-failure", "job_node_lost", "Slurm lost a node and ended the job."),
    Signature(
        "log.slurm.signalled",
        "slurm_signalled",
        "Slurm sent the job or the step a signal.",
        "A mere warning signal prints the same: the job may run on.",
    ),
    Signature("log.slurm.srun-node-failure", "node_lost", "Slurm lost this node."),
    Signature("log.slurm.step-killed", "step_killed", "srun killed the step."),
    Signature("log.slurm.oom", "oom_killed", "The kernel killed a process of the step for memory."),
)


@lru_cache(maxsize=None)
def by_literal() -> dict[bytes, list[Signature]]:
    """Few literals such that each signature's text holds one, with the signatures that each stands for.

    They are looked for before any pattern is tried. Each costs a pass over the log, so signatures share one where
    they can; a long one costs less than a short one, so each is as long as its signatures allow. What dense lines
    hold as well is no literal for others: it would be found on most lines of a log.
    """
    frequent = "\0".join(text_of(s.fact) for s in SIGNATURES if s.dense)
    holders: dict[str, set[Signature]] = defaultdict(set)
    for signature in SIGNATURES:
        for part in signature.fixed:
            for start in range(len(part) - SHORTEST_LITERAL + 1):
                window = part[start : start + SHORTEST_LITERAL]
                if signature.dense or window not in frequent:
                    holders[window].add(signature)
    table: dict[bytes, list[Signature]] = {}
    left = set(SIGNATURES)
    while left:
        window = max(holders, key=lambda w: (len(holders[w] & left), w))
        group = [signature for signature in SIGNATURES if signature in holders[window] & left]
        table[_longest_shared(window, group).encode()] = group
        left.difference_update(group)
    return table


def _longest_shared(window: str, group: list[Signature]) -> str:
    parts = [[part for part in signature.fixed if window in part] for signature in group]
    around = max(parts[0], key=len)
    for length in range(len(around), len(window), -1):
        for start in range(len(around) - length + 1):
            text = around[start : start + length]
            if all(any(text in part for part in mine) for mine in parts):
                return text
    return window
