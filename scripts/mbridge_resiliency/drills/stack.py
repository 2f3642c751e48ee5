# SPDX-License-Identifier: Apache-2.0
"""The fault-tolerance callbacks that the training loop drives: Bridge's own, or the same calls on NVRx alone.

Bridge's package imports TransformerEngine and much of Hugging Face, for models and data that a drill has no use for.
`_Placeholders` stands in for those packages, so that Bridge's fault tolerance, configuration and state are imported
for real, unchanged, on a machine without a GPU.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .job import CHECKPOINTS, Job

BRIDGE_LABEL = (
    "real NVRx and real Bridge fault-tolerance callbacks; "
    "placeholders for Bridge's model and data packages; gloo instead of NCCL"
)
NVRX_LABEL = "real NVRx alone, with the section calls that Bridge makes made by the drill; gloo instead of NCCL"

_UNRELATED = (
    "datasets",
    "huggingface_hub",
    "megatron.bridge.data",
    "megatron.bridge.diffusion",
    "megatron.bridge.models",
    "megatron.bridge.peft",
    "megatron.bridge.training.tokenizers",
    "torch.utils.tensorboard",
    "transformers",
)


@dataclass(frozen=True)
class Stack:
    """What the training loop drives.

    Attributes:
        callbacks: has setup, on_training_step_start and its like, as megatron.bridge.training.fault_tolerance.
        state: what the callbacks keep between calls (Bridge's GlobalState), with its configuration in `cfg` and, if the
            job asks for it, Bridge's handler of SIGTERM, installed, in `signal_handler`.
        bridge: the callbacks are Bridge's.
    """

    callbacks: Any
    state: Any
    bridge: bool

    def setup(self) -> None:
        """Connect to this rank's monitor and open the "setup" section."""
        self.callbacks.setup(self.state.cfg, self.state)


def load(job: Job) -> Stack:
    """Import the callbacks that the job asks for and give them their configuration."""
    return _bridge(job) if job.bridge else _nvrx(job)


def _bridge(job: Job) -> Stack:
    sys.meta_path.insert(0, _Placeholders())
    _without_init("megatron.bridge")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is not installed and not needed: TransformerEngine, Apex
        from megatron.bridge.training import fault_tolerance
        from megatron.bridge.training.config import (
            CheckpointConfig,
            ConfigContainer,
            FaultToleranceConfig,
            LoggerConfig,
            TrainingConfig,
        )
        from megatron.bridge.training.state import GlobalState

    unrelated = dict.fromkeys(("model", "optimizer", "scheduler", "dataset", "tokenizer"))
    state = GlobalState()
    state.cfg = ConfigContainer(
        train=TrainingConfig(train_iters=job.iterations, exit_signal_handler=job.exit_signal_handler),
        checkpoint=CheckpointConfig(
            save=str(CHECKPOINTS), load=str(CHECKPOINTS), save_interval=job.save_interval, async_save=False
        ),
        ft=FaultToleranceConfig(enable_ft_package=True, calc_ft_timeouts=job.calc_ft_timeouts),
        logger=LoggerConfig(log_interval=1),
        **unrelated,
    )
    return Stack(fault_tolerance, state, bridge=True)


def _nvrx(job: Job) -> Stack:
    from . import nvrx_alone

    if job.needs_bridge:
        raise ValueError("calc_ft_timeouts and exit_signal_handler are Bridge's: they need bridge=True")
    return Stack(nvrx_alone, nvrx_alone.State(), bridge=False)


class _Placeholder(types.ModuleType):
    """A module whose every public name is an empty class: enough to be imported from and annotated with."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__module__": self.__name__})


class _Placeholders(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a placeholder for each unrelated package and everything below it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if any(name == package or name.startswith(f"{package}.") for package in _UNRELATED):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Placeholder(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def _without_init(package: str) -> None:
    """Make the package's modules importable without running its __init__, which registers every model."""
    parent, _, leaf = package.rpartition(".")
    roots = importlib.util.find_spec(parent).submodule_search_locations
    module = types.ModuleType(package)
    module.__path__ = [str(Path(root) / leaf) for root in roots if (Path(root) / leaf).is_dir()]
    sys.modules[package] = module
