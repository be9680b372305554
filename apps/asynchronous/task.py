"""Parts of both trainings: model, text, a worker's step, and a slow worker's delay."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from gpt.communication_clock import CommunicationClock
from gpt.corpus import Corpus
from gpt.model import GPT, Shape, loss_of

_EVALUATION_SEED = 0


@dataclass(frozen=True)
class Task:
    """The training task and its number of workers.

    Attributes:
        shape: of the model.
        seed: of its first values and of the choice of text.
        batch: pieces of text in a worker's step.
        worker_steps: of all workers together.
        learning_rate: of AdamW.
        ranks: all of which are workers.
        slow_rank: the slow one, if any.
        slow_factor: how many times as long its steps take.
        evaluate_s: seconds between two evaluations.
    """

    shape: Shape
    seed: int
    batch: int
    worker_steps: int
    learning_rate: float
    ranks: int
    slow_rank: int | None
    slow_factor: float
    evaluate_s: float

    def model(self) -> GPT:
        """A new model, the same on every rank."""
        return GPT(self.shape, self.seed)

    def optimizer(self, model: torch.nn.Module) -> torch.optim.Optimizer:
        """A new optimizer of ``model``."""
        return torch.optim.AdamW(model.parameters(), lr=self.learning_rate, foreach=False)


class Worker:
    """One rank's steps."""

    def __init__(self, task: Task, rank: int, model: torch.nn.Module) -> None:
        """``model`` may be wrapped for parallel training."""
        self._task = task
        self._rank = rank
        self._model = model
        self._corpus = Corpus.of_standard_library()
        self.steps = 0

    def gradients(self) -> None:
        """Compute the gradients of the next batch; a slow rank takes its time."""
        clock = CommunicationClock()
        inputs, targets = self._corpus.batch(
            self._task.seed + 1 + self._rank,
            self.steps,
            self._task.batch,
            self._task.shape.context,
        )
        loss_of(self._model(inputs), targets).backward()  # type: ignore[no-untyped-call]
        self.steps += 1
        if self._rank == self._task.slow_rank:
            wall_s, waited_s = clock.read()
            time.sleep((wall_s - waited_s) * (self._task.slow_factor - 1))

    def evaluate(self) -> float:
        """Loss on a batch that is the same for everyone and always, in nats per byte."""
        inputs, targets = self._corpus.batch(_EVALUATION_SEED, 0, 16, self._task.shape.context)
        with torch.no_grad():
            return float(loss_of(self._model(inputs), targets))
