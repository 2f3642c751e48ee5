# SPDX-License-Identifier: Apache-2.0
"""A small data-parallel model whose every step is a function of the seed, the iteration and the ranks alone.

`python -m mbridge_resiliency.drills.model` prints, as JSON, the final weights of the job in the working directory
computed undisturbed in this one process.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Sequence

import torch

from .job import WORLD_SIZE, Job

_WIDTH = 64
_SAMPLES_PER_RANK = 4
GLOBAL_BATCH_SIZE = _SAMPLES_PER_RANK * WORLD_SIZE
LEARNING_RATE = 1e-3


class Replica:
    """One rank's copy of the weights and its optimizer."""

    def __init__(self, seed: int) -> None:
        torch.set_num_threads(1)  # one order of summation, on every machine and in every process
        torch.manual_seed(seed)
        self._seed = seed
        self._model = torch.nn.Sequential(
            torch.nn.Linear(_WIDTH, _WIDTH), torch.nn.GELU(), torch.nn.Linear(_WIDTH, _WIDTH)
        )
        self._optimizer = torch.optim.AdamW(self._model.parameters(), lr=LEARNING_RATE)

    def forward_backward(self, iteration: int, rank: int) -> torch.Tensor:
        """This rank's gradients and, as the last element, its loss; to be summed over the ranks."""
        data = torch.Generator().manual_seed((self._seed * 1_000_003 + iteration) * WORLD_SIZE + rank)
        samples = torch.randn(_SAMPLES_PER_RANK, _WIDTH, generator=data)
        self._optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(self._model(samples), samples)
        loss.backward()
        gradients = [parameter.grad.reshape(-1) for parameter in self._model.parameters()]
        return torch.cat([*gradients, loss.detach().reshape(1)])

    def update(self, summed: torch.Tensor) -> tuple[float, float]:
        """Take one optimizer step with the sum over the ranks. Returns loss and gradient norm."""
        mean = summed / WORLD_SIZE
        offset = 0
        for parameter in self._model.parameters():
            parameter.grad = mean[offset : offset + parameter.numel()].view_as(parameter)
            offset += parameter.numel()
        self._optimizer.step()
        return mean[-1].item(), mean[:-1].norm().item()

    def state(self) -> dict[str, Any]:
        """Weights and optimizer state, for a checkpoint."""
        return {"model": self._model.state_dict(), "optimizer": self._optimizer.state_dict()}

    def restore(self, state: dict[str, Any]) -> None:
        """The inverse of state."""
        self._model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])

    def digest(self) -> str:
        """SHA-256 of the weights' bytes: equal digests are equal weights, bit for bit."""
        digest = hashlib.sha256()
        for parameter in self._model.parameters():
            digest.update(parameter.detach().numpy().tobytes())
        return digest.hexdigest()


def undisturbed(job: Job) -> str:
    """The digest that the job's weights have at its end if nothing breaks, computed without processes or network.

    The same bits as the distributed run: a sum over two ranks has one order and floating-point addition commutes,
    so the reduced gradients do not depend on who adds them. The drill "healthy" shows it on the real launcher.
    """
    replica = Replica(job.seed)
    for iteration in range(1, job.iterations + 1):
        first, second = (replica.forward_backward(iteration, rank) for rank in range(WORLD_SIZE))
        replica.update(first + second)
    return replica.digest()


def main(_: Sequence[str] = ()) -> int:
    """Print the undisturbed digest of the job in the working directory."""
    print(json.dumps({"weights": undisturbed(Job.read())}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
