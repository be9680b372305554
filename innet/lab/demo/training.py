"""A rank of the demonstration: trains the same perceptron once per algorithm.

``python -m innet.lab.demo.training EPOCHS ALGORITHM...`` runs on each host. Rank 0 trains alone
first, without the network; then all ranks train together, once with each algorithm. Rank 0 prints
the record of each training as JSON when it starts, after each epoch, and at its end.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Final

import numpy as np
from pydantic import BaseModel

import innet
from innet.lab.demo.digits import BATCH, Digits, Perceptron

ALONE: Final = "single"
_SEED: Final = 1


class TrainingRecord(BaseModel):
    """One training, so far.

    Attributes:
        method: the algorithm, or ``single``.
        ranks: processes that train together.
        epochs: to train.
        gradient_bytes: that each rank contributes to a sum in each step.
        losses: the loss of each step over the whole batch.
        accuracies: share of the test images recognised after each epoch.
        seconds: wall time of the epochs, of the slowest rank once the training has ended.
        waited_s: the part of it that rank 0 waited for sums of gradients.
        busiest_link_bytes: in the busier direction of the host's link that carried the most; known
            at the end.
    """

    method: str
    ranks: int
    epochs: int
    gradient_bytes: int
    losses: list[float] = []
    accuracies: list[float] = []
    seconds: float = 0.0
    waited_s: float = 0.0
    busiest_link_bytes: int = 0


class Training:
    """One training from the start, by this process alone or by all ranks of ``comm``."""

    def __init__(
        self, method: str, digits: Digits, epochs: int, comm: innet.Communicator | None
    ) -> None:
        self._digits = digits
        self._comm = comm
        self._rank, self._ranks = (0, 1) if comm is None else (comm.rank, comm.size)
        self._model = Perceptron(_SEED)
        self.record = TrainingRecord(
            method=method,
            ranks=self._ranks,
            epochs=epochs,
            gradient_bytes=self._model.gradient.nbytes,
        )

    def run(self) -> None:
        """Train all epochs."""
        self._report()
        if self._comm is None:
            self._run_epochs()
        else:
            _, cost = innet.measure(self._comm, self._run_epochs)
            self.record.seconds = cost.seconds
            self.record.busiest_link_bytes = cost.busiest_link_bytes
            self._report()

    def _run_epochs(self) -> None:
        began_s = time.perf_counter()
        for epoch in range(self.record.epochs):
            self._run_epoch(epoch)
            self.record.seconds = time.perf_counter() - began_s
            if self._rank == 0:
                self.record.accuracies.append(self._digits.accuracy(self._model))
                self._report()

    def _run_epoch(self, epoch: int) -> None:
        losses = []
        for mine in self._digits.batches(_SEED + 1 + epoch, self._rank, self._ranks):
            images, labels = self._digits.images[mine], self._digits.labels[mine]
            losses.append(self._model.differentiate(images, labels, BATCH))
            self._sum_gradients()
            self._model.step()
        of_batches = np.array(losses)
        if self._comm is not None:
            self._comm.allreduce(of_batches, out=of_batches)
        self.record.losses += of_batches.tolist()

    def _sum_gradients(self) -> None:
        if self._comm is not None:
            began_s = time.perf_counter()
            self._comm.allreduce(self._model.gradient, out=self._model.gradient)
            self.record.waited_s += time.perf_counter() - began_s

    def _report(self) -> None:
        if self._rank == 0:
            print(self.record.model_dump_json(), flush=True)


def main(arguments: Sequence[str]) -> None:
    """Train as the rank that the environment names."""
    epochs = int(arguments[0])
    digits = Digits.draw(_SEED)
    comm = innet.init()
    if comm.rank == 0:
        Training(ALONE, digits, epochs, None).run()
    comm.barrier()
    for algorithm in arguments[1:]:
        group = innet.init(group=algorithm, algorithm=algorithm)
        Training(algorithm, digits, epochs, group).run()
        group.close()
    comm.close()


if __name__ == "__main__":
    main(sys.argv[1:])
