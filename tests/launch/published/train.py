# SPDX-License-Identifier: Apache-2.0
from megatron.bridge.recipes.llama import llama3_8b_pretrain_config
from megatron.bridge.training.config import FaultToleranceConfig
from megatron.bridge.training.gpt_step import forward_step
from megatron.bridge.training.pretrain import pretrain

cfg = llama3_8b_pretrain_config()
cfg.ft = FaultToleranceConfig(enable_ft_package=True)
cfg.checkpoint.save = cfg.checkpoint.load = "/shared/ckpt"
pretrain(cfg, forward_step)
