#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run train.py where Transformer Engine is not installed: ``TRAIN=without_te.py bash launch.sh``.

For trying the example on any machine with a GPU. A NeMo container has Transformer Engine and needs none of this.
"""

import importlib.machinery
import sys
import types
from functools import partial

import megatron.core.datasets.utils
import megatron.core.extensions.transformer_engine  # noqa: F401  settles that the package is absent ...
from megatron.core.utils import get_te_version

get_te_version()  # ... and caches its version as 0.0.0, before the stand-in below is there to be found


class _Absent(type):
    """A class any of whose attributes is an empty class: Bridge's LoRA layers name some of TE's when imported."""

    def __getattr__(cls, name: str) -> "_Absent":
        if name.startswith("__"):
            raise AttributeError(name)
        return _Absent(name, (), {})


def _stand_in(name: str) -> types.ModuleType:
    """Make an importable module whose attributes are _Absent."""
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
    module.__path__ = []
    module.__getattr__ = partial(_Absent.__getattr__, module)
    sys.modules[name] = module
    return module


_stand_in("transformer_engine").pytorch = _stand_in("transformer_engine.pytorch")
# The wheel brings this helper compiled, but not the Makefile that would rebuild it.
megatron.core.datasets.utils.compile_helpers = lambda: None

import train  # noqa: E402
from megatron.bridge.models.gpt_provider import local_layer_spec  # noqa: E402


def config() -> train.ConfigContainer:
    """train.py's job with the layers of Megatron Core in plain PyTorch, and no fused kernels."""
    cfg = train.config()
    cfg.model.transformer_layer_spec = local_layer_spec
    cfg.model.gradient_accumulation_fusion = False
    cfg.model.bias_dropout_fusion = False
    cfg.model.masked_softmax_fusion = False
    cfg.model.apply_rope_fusion = False
    cfg.model.persist_layer_norm = False
    # With PyTorch's Adam in place of TE's, Core's distributed optimizer saves but cannot load (AssertionError).
    cfg.optimizer.use_distributed_optimizer = False
    cfg.ddp.use_distributed_optimizer = False
    return cfg


if __name__ == "__main__":
    train.main(config())
