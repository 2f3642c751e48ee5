# SPDX-License-Identifier: Apache-2.0
"""The section calls of megatron.bridge.training.fault_tolerance, made on NVRx's client by the drill itself.

For machines where Megatron Bridge cannot be installed (it needs Python 3.12). Same sections, same order, same log
lines; timeouts learned by Bridge (ft_state.json) are left out.
Source: megatron-bridge 0.6.2, megatron/bridge/training/fault_tolerance.py.
"""

from __future__ import annotations

from typing import Any

import torch.distributed as dist

#: As Bridge: the first iteration of a process is in no section.
_WARMUP_ITERATIONS = 1


class State:
    """What the callbacks keep between calls."""

    def __init__(self) -> None:
        self.cfg = None
        self.client: Any = None
        self.in_setup = False
        self.iterations_seen = 0


def setup(_config: None, state: State) -> None:
    """Connect to this rank's monitor and open the "setup" section."""
    from nvidia_resiliency_ext.fault_tolerance import RankMonitorClient

    _print_rank_0("FT: initializing...")
    state.client = RankMonitorClient()
    state.client.init_workload_monitoring()
    _print_rank_0(f"FT: initialized. Timeouts={state.client.section_timeouts}")
    state.client.start_section("setup")
    state.in_setup = True


def on_training_step_start(state: State) -> None:
    """Close "setup"; open "step" from the second iteration on."""
    if state.in_setup:
        state.client.end_section("setup")
        state.in_setup = False
    if state.iterations_seen >= _WARMUP_ITERATIONS:
        state.client.start_section("step")


def on_training_step_end(state: State) -> None:
    """Close "step"."""
    if state.iterations_seen >= _WARMUP_ITERATIONS:
        state.client.end_section("step")
    state.iterations_seen += 1


def on_checkpointing_start(state: State) -> None:
    """Open "checkpointing"."""
    state.client.start_section("checkpointing")


def on_checkpointing_end(is_async_finalization: bool, global_state: State) -> None:
    """Close "checkpointing"."""
    global_state.client.end_section("checkpointing")


def on_checkpoint_loaded(is_local_chkpt: bool, global_state: State) -> None:
    """Bridge uses it for learned timeouts alone."""


def shutdown(state: State) -> None:
    """Disconnect from the monitor."""
    _print_rank_0("FT: closing...")
    state.client.shutdown_workload_monitoring()
    _print_rank_0("FT: closed.")


def _print_rank_0(text: str) -> None:
    if dist.get_rank() == 0:
        print(text, flush=True)
