# SPDX-License-Identifier: Apache-2.0
"""The training script that a drill breaks: data-parallel ranks on gloo, monitored as under Megatron Bridge.

The fault-tolerance callbacks are called where Bridge 0.6.2 calls them (megatron/bridge/training: pretrain.py, setup.py,
train.py, checkpointing.py), and the loop prints the lines that Bridge prints there. Checkpoints have a small format of
their own, written so that a save is either whole or absent, with Bridge's tracker file.

Run by the launcher in the drill's folder, as `-m mbridge_resiliency.drills.train`. Nothing it prints says that, or
where, a fault is coming; what really happened goes to a file for each rank under truth/.
"""

from __future__ import annotations

import json
import logging
import os
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from .faults import fire_if_due
from .job import CHECKPOINTS, TRACKER, TRUTH, WORLD_SIZE, Job
from .model import GLOBAL_BATCH_SIZE, LEARNING_RATE, Replica
from .stack import Stack, load

_logger = logging.getLogger(__name__)


def main() -> None:
    """Train the job of the working directory as the rank that the launcher's environment names."""
    started_at = time.time()
    training = Training(Job.read())
    try:
        training.setup(started_at)
        training.train()
        training.finish()
    except BaseException as error:
        # As Bridge: peers may be blocked in a collective with this rank, so it leaves the group before it ends.
        if training.job.bridge:
            _logger.exception(
                "Pretrain failed on rank=%s with %s: %s. Bridge is aborting framework-owned distributed resources "
                "because peer ranks may be blocked in collectives.",
                training.rank,
                type(error).__name__,
                error,
            )
        dist.distributed_c10d._abort_process_group()
        raise
    dist.barrier()
    dist.destroy_process_group()


class Training:
    """One rank's part of the job, in one cycle."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.rank = int(os.environ["RANK"])
        self.iteration = 0
        self._truth = _Truth(self.rank)
        self._truth.add("started")
        self._stack: Stack = load(job)
        self._callbacks = self._stack.callbacks
        self._state = self._stack.state
        self._replica = Replica(job.seed)
        dist.init_process_group("gloo")
        if dist.get_world_size() != WORLD_SIZE:
            raise SystemExit(f"a drill has {WORLD_SIZE} ranks, not {dist.get_world_size()}")

    def setup(self, started_at: float) -> None:
        """As setup.py: monitoring first, then the model, then the checkpoint."""
        self._stack.setup()
        self._print_rank_0(f"time to initialize megatron (seconds): {time.time() - started_at:.3f}")
        self._barrier_and_log("after megatron is initialized")
        time.sleep(self.job.setup_seconds)
        self._load()
        self._barrier_and_log("after model, optimizer, and learning rate scheduler are built")
        self._barrier_and_log("after dataloaders are built")
        self._print_rank_0("done with setup ...")

    def train(self) -> None:
        """As train.py: every iteration finalizes asynchronous saves (there are none), steps, logs and perhaps saves."""
        self._print_rank_0(f"Starting training loop at iteration {self.iteration}")
        while self.iteration < self.job.iterations:
            self._finalize_async_saves()
            self._callbacks.on_training_step_start(self._state)
            began = time.monotonic()
            loss, gradient_norm = self._step(self.iteration + 1)
            self._callbacks.on_training_step_end(self._state)
            self.iteration += 1
            self._truth.add("iteration", iteration=self.iteration)
            self._log(loss, gradient_norm, time.monotonic() - began)
            if self._save_and_decide_exit():
                self._finalize_async_saves()
                self._callbacks.shutdown(self._state)
                raise SystemExit(0)
        self._finalize_async_saves()
        self._barrier_and_log("after training is done")

    def finish(self) -> None:
        """As pretrain.py's _finish_train."""
        self._finalize_async_saves()
        self._callbacks.shutdown(self._state)
        self._truth.add("finished", iteration=self.iteration, weights=self._replica.digest())

    def _step(self, iteration: int) -> tuple[float, float]:
        gradients = self._replica.forward_backward(iteration, self.rank)
        time.sleep(self.job.iteration_seconds)
        self._fire_if_due(iteration, "step")
        dist.all_reduce(gradients)
        return self._replica.update(gradients)

    def _save_and_decide_exit(self) -> bool:
        """As train.py's checkpoint_and_decide_exit: a rank that was told to stop stops all, after a save."""
        if self.job.exit_signal_handler and any(self._state.signal_handler.signals_received()):
            self._save()
            self._barrier_and_log("exiting program after receiving SIGTERM.")
            return True
        if self.iteration % self.job.save_interval == 0:
            self._save()
        return False

    def _save(self) -> None:
        """As checkpointing.py's save_checkpoint, synchronous."""
        self._callbacks.on_checkpointing_start(self._state)
        self._print_rank_0(f"saving checkpoint at iteration {self.iteration:7d} to {CHECKPOINTS} in torch_dist format")
        self._fire_if_due(self.iteration, "checkpoint")
        dist.barrier()
        if self.rank == 0:
            _replace(_weights(self.iteration), lambda path: torch.save(self._replica.state(), path))
            _replace(TRACKER, lambda path: path.write_text(str(self.iteration), encoding="utf-8"))
            print(
                f"  successfully saved checkpoint from iteration {self.iteration:7d} to {CHECKPOINTS} [ t 1/1, p 1/1 ]",
                flush=True,
            )
        dist.barrier()
        self._truth.add("saved", iteration=self.iteration)
        self._callbacks.on_checkpointing_end(global_state=self._state, is_async_finalization=False)

    def _load(self) -> None:
        """As setup.py's _should_load_checkpoint and checkpointing.py's load_checkpoint."""
        if not TRACKER.exists():  # Bridge does not try to load then, and prints nothing
            self._truth.add("resumed", iteration=0)
            return
        iteration = int(TRACKER.read_text(encoding="utf-8"))
        self._print_rank_0(f" loading distributed checkpoint from {CHECKPOINTS} at iteration {iteration}")
        self._replica.restore(torch.load(_weights(iteration), weights_only=True))
        self.iteration = iteration
        dist.barrier()
        self._print_rank_0(
            f"  successfully loaded checkpoint from {CHECKPOINTS} [ t 0/1, p 0/1 ] at iteration {iteration}"
        )
        self._callbacks.on_checkpoint_loaded(is_local_chkpt=False, global_state=self._state)
        self._truth.add("resumed", iteration=iteration)

    def _finalize_async_saves(self) -> None:
        self._callbacks.on_checkpointing_start(self._state)
        self._callbacks.on_checkpointing_end(global_state=self._state, is_async_finalization=True)

    def _fire_if_due(self, iteration: int, where: str) -> None:
        fire_if_due(
            self.job.fault, self.rank, iteration, where, record=lambda: self._truth.add("fault", iteration=iteration)
        )

    def _log(self, loss: float, gradient_norm: float, seconds: float) -> None:
        """As train_utils.py's training_log, which the last rank prints."""
        if self.rank != WORLD_SIZE - 1:
            return
        print(
            f" [{datetime.now():%Y-%m-%d %H:%M:%S}] iteration {self.iteration:8d}/{self.job.iterations:8d} |"
            f" consumed samples: {self.iteration * GLOBAL_BATCH_SIZE:12d} |"
            f" elapsed time per iteration (ms): {seconds * 1000:.1f} |"
            f" learning rate: {LEARNING_RATE:.6E} | global batch size: {GLOBAL_BATCH_SIZE:5d} |"
            f" lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: {gradient_norm:.3f} |"
            " number of skipped iterations:   0 | number of nan iterations:   0 |",
            flush=True,
        )

    def _barrier_and_log(self, text: str) -> None:
        dist.barrier()
        self._print_rank_0(f"[{text}] datetime: {datetime.now():%Y-%m-%d %H:%M:%S} ")

    def _print_rank_0(self, text: str) -> None:
        if self.rank == 0:
            print(text, flush=True)


class _Truth:
    """What this rank really did, one JSON object a line."""

    def __init__(self, rank: int) -> None:
        self._cycle = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))
        self._file = (TRUTH / f"rank{rank}.jsonl").open("a", encoding="utf-8")

    def add(self, event: str, **details: Any) -> None:
        """Append the event with the moment it happened (seconds since the epoch), safe from this process's death."""
        self._file.write(json.dumps({"event": event, "at": time.time(), "cycle": self._cycle, **details}) + "\n")
        self._file.flush()


def _weights(iteration: int) -> Path:
    return CHECKPOINTS / f"iter_{iteration:07d}" / "weights.pt"


def _replace(path: Path, write: Any) -> None:
    """Write a file so that it is either whole or absent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    write(partial)
    partial.replace(path)


if __name__ == "__main__":
    main()
