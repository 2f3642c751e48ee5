#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pretrain a small GPT on mock data so that it survives a hang, a crash and a lost process.

Start it with ft_launcher (launch.sh, job.sbatch or launch_nemo_run.py), never with torchrun: under torchrun every
rank stops in set-up with RankMonitorClientError. Hydra-style overrides are accepted, for example
``train.train_iters=200``. Megatron Bridge 0.6.2; other models differ in ``model=`` only.
"""

import logging
import os
import sys
from pathlib import Path

import torch
from megatron.bridge.models.gpt_provider import GPTModelProvider
from megatron.bridge.training.config import (
    CheckpointConfig,
    ConfigContainer,
    FaultToleranceConfig,
    LoggerConfig,
    MockGPTDatasetConfig,
    OptimizerConfig,
    SchedulerConfig,
    TokenizerConfig,
    TrainingConfig,
    ValidationConfig,
)
from megatron.bridge.training.gpt_step import forward_step
from megatron.bridge.training.pretrain import pretrain
from megatron.bridge.training.utils.omegaconf_utils import process_config_with_overrides

# Every node must see this folder: a restarted job may start on other nodes.
CHECKPOINTS = os.environ.get("CHECKPOINT_DIR", "checkpoints")


def config() -> ConfigContainer:
    """The whole job. What fault tolerance needs is `checkpoint` and `ft`; the rest is any training job."""
    return ConfigContainer(
        model=GPTModelProvider(
            num_layers=4,
            hidden_size=512,
            num_attention_heads=8,
            seq_length=1024,
            bf16=True,
            params_dtype=torch.bfloat16,
        ),
        dataset=MockGPTDatasetConfig(
            random_seed=1234,
            seq_length=1024,
            reset_position_ids=False,
            reset_attention_mask=False,
            eod_mask_loss=False,
            dataloader_type="single",
            num_workers=1,
        ),
        tokenizer=TokenizerConfig(tokenizer_type="NullTokenizer", vocab_size=32000),
        train=TrainingConfig(train_iters=1000, micro_batch_size=4, global_batch_size=32),
        validation=ValidationConfig(eval_iters=0),
        optimizer=OptimizerConfig(optimizer="adam", lr=1e-4, min_lr=1e-5, bf16=True, use_distributed_optimizer=True),
        scheduler=SchedulerConfig(
            lr_decay_iters=1000,
            lr_warmup_iters=10,
            start_weight_decay=0.01,
            end_weight_decay=0.01,
            weight_decay_incr_style="constant",
        ),
        logger=LoggerConfig(log_interval=10),
        checkpoint=CheckpointConfig(
            # Fault tolerance refuses to start without `save`; without `load` a restart begins again at iteration 0.
            save=CHECKPOINTS,
            load=CHECKPOINTS,
            # A fault costs at most the iterations since the last save.
            save_interval=100,
        ),
        ft=FaultToleranceConfig(
            enable_ft_package=True,
            # Learned timeouts (5 x the longest seen) are kept in <save>/ft_state.json and win over ft.yaml from
            # then on. Turn this on once the job's times are known to be steady.
            calc_ft_timeouts=False,
        ),
    )


def main(cfg: ConfigContainer) -> None:
    """Train to the end, with the overrides of the command line."""
    logging.basicConfig(level=logging.INFO)
    pretrain(config=process_config_with_overrides(cfg, cli_overrides=sys.argv[1:]), forward_step_func=forward_step)
    # Reached only when training is complete: an early stop (signal, time limit) exits inside pretrain(). NeMo-Run's
    # Slurm template sets this variable and submits the job again, for ever, until the file is there.
    if finished_flag := os.environ.get("FAULT_TOL_FINISHED_FLAG_FILE"):
        Path(finished_flag).touch()


# Without the guard, the process that writes checkpoints would import this file and start training again.
if __name__ == "__main__":
    main(config())
