"""The training loop, the same for every kind of parallelism."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist

from gpt.checkpoint import Checkpoints
from gpt.communication_clock import CommunicationClock
from gpt.corpus import Corpus
from gpt.parallel import ParallelModel
from gpt.record import Record


@dataclass(frozen=True)
class Schedule:
    """How long to train.

    Attributes:
        steps: of the whole training, those before a checkpoint included.
        batch: pieces of text in a step, over all ranks.
        seed: of the choice of text.
        report_every: steps between two reports.
        checkpoint_every: steps between two checkpoints.
    """

    steps: int
    batch: int
    seed: int
    report_every: int
    checkpoint_every: int


class Training:
    """A model, its optimizer and its text; fills a :class:`Record`."""

    def __init__(
        self,
        parallel: ParallelModel,
        optimizer: torch.optim.Optimizer,
        schedule: Schedule,
        record: Record,
    ) -> None:
        self._parallel = parallel
        self._optimizer = optimizer
        self._schedule = schedule
        self._record = record
        self._corpus = Corpus.of_standard_library()
        self._unreported: list[torch.Tensor | None] = []

    def run(self, checkpoints: Checkpoints | None, report: Callable[[Record], None]) -> None:
        """Train; all ranks call it.

        Args:
            checkpoints: where to go on from, and what to save to.
            report: called on every rank, with losses and times up to then.
        """
        schedule, record = self._schedule, self._record
        first = record.first_step = checkpoints.load_latest() if checkpoints else 0
        dist.barrier()
        whole = CommunicationClock()
        for step in range(first, schedule.steps):
            clock = CommunicationClock()
            self._unreported.append(self._step(step))
            step_s, waited_s = clock.read()
            record.step_s.append(step_s)
            record.waited_s.append(waited_s)
            done = step + 1
            if done % schedule.report_every == 0 or done == schedule.steps:
                self._share(whole)
                report(record)
            if checkpoints and (done % schedule.checkpoint_every == 0 or done == schedule.steps):
                checkpoints.save(done)

    def _step(self, step: int) -> torch.Tensor | None:
        schedule = self._schedule
        batch = self._corpus.batch(
            schedule.seed, step, schedule.batch, self._parallel.model.shape.context
        )
        self._optimizer.zero_grad()
        loss = self._parallel.gradients(*batch)
        self._optimizer.step()
        return loss

    def _share(self, whole: CommunicationClock) -> None:
        """Put the losses since the last report, and everyone's waiting, into the record."""
        ranks, steps = dist.get_world_size(), len(self._unreported)
        wall_s, waited_s = whole.read()
        # One sum for everything: losses, how many ranks know them, and a place for each rank.
        sums = torch.zeros(steps + 1 + ranks, dtype=torch.float64)
        known = [loss for loss in self._unreported if loss is not None]
        if known:
            sums[:steps] = torch.stack(known)
            sums[steps] = 1
        sums[steps + 1 + dist.get_rank()] = waited_s / wall_s
        dist.all_reduce(sums)
        record = self._record
        record.losses += (sums[:steps] / sums[steps]).tolist()
        record.waited_share = sums[steps + 1 :].tolist()
        tokens = len(record.losses) * self._schedule.batch * self._parallel.model.shape.context
        record.tokens_per_s = tokens / wall_s
        self._unreported.clear()
