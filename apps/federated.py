"""Federated averaging under masks: no worker, switch or server sees what one worker has learnt.

    innet run star:5 --elastic -- python apps/federated.py
    innet run star:5 --elastic -- python apps/federated.py --kill 2 --in-round 3

Each worker has data of its own, of mostly two of five kinds, and never sends them. In each round it
trains the common model on them, and what it would change is summed with the others' changes by
`innet.MaskedSum`: only the sum comes to light (McMahan et al. 2017; Bonawitz et al. 2017). With
``--kill``, a worker's process ends in the midst of a round; the others end the round, and go on.
At most so many may die that ``--threshold`` are left: by default none of 3 workers, 1 of 4 or 5.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import innet
from innet.errors import CollectiveError, SecurityError

KINDS = 5
FEATURES = 32
MOST_SAMPLES = 400
LARGEST_CHANGE = 4.0
"""Largest change of a parameter in a round; larger ones are clipped."""

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Samples:
    """The samples of one worker: rows of numbers, and the kind of each."""

    rows: Floats
    kinds: npt.NDArray[np.int64]

    @classmethod
    def of_worker(cls, worker: int) -> Samples:
        """Two kinds are frequent at a worker, the others rare; workers differ in how many."""
        random = np.random.default_rng(worker)
        count = int(random.integers(MOST_SAMPLES // 2, MOST_SAMPLES + 1))
        shares = np.full(KINDS, 0.05)
        shares[[worker % KINDS, (worker + 1) % KINDS]] += 0.375
        return cls._drawn(random, random.choice(KINDS, count, p=shares / shares.sum()))

    @classmethod
    def for_testing(cls) -> Samples:
        """Samples of all kinds in equal numbers, which no worker has."""
        return cls._drawn(np.random.default_rng(10**6), np.arange(200 * KINDS) % KINDS)

    @classmethod
    def _drawn(cls, random: np.random.Generator, kinds: npt.NDArray[np.int64]) -> Samples:
        centres = np.random.default_rng(7).normal(size=(KINDS, FEATURES))
        rows = centres[kinds] + 2.0 * random.normal(size=(len(kinds), FEATURES))
        return cls(rows.astype(np.float32), kinds)


class Model:
    """A linear classifier, trained by gradient descent."""

    def __init__(self) -> None:
        self.weights = np.zeros((FEATURES, KINDS), np.float32)

    def change_by(self, samples: Samples, steps: int, rate: float) -> Floats:
        """The change that training on ``samples`` would make; the model is unchanged."""
        weights = self.weights.copy()
        wanted = np.eye(KINDS, dtype=np.float32)[samples.kinds]
        for _ in range(steps):
            errors = _probabilities(samples.rows @ weights) - wanted
            weights -= rate * (samples.rows.T @ errors) / len(samples.rows)
        change: Floats = np.clip(weights - self.weights, -LARGEST_CHANGE, LARGEST_CHANGE)
        return change

    def loss(self, samples: Samples) -> float:
        """Cross-entropy of the samples' kinds, in nats."""
        of_kinds = _probabilities(samples.rows @ self.weights)
        return float(-np.log(of_kinds[np.arange(len(samples.kinds)), samples.kinds]).mean())

    def digest(self) -> str:
        """A digest that is equal only for equal models."""
        return hashlib.sha256(self.weights.tobytes()).hexdigest()[:16]


class Worker:
    """One rank: its data, its copy of the model, and the sums with the others."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._comm = innet.init()
        self._number = self._comm.rank
        self._sums = innet.MaskedSum(
            self._comm, limit=LARGEST_CHANGE, threshold=arguments.threshold
        )
        self._samples = Samples.of_worker(self._number)
        self._weight = np.float32(len(self._samples.rows) / MOST_SAMPLES)
        self._testing = Samples.for_testing()
        self.model = Model()

    def run(self) -> None:
        """All rounds; the first of those who are left tells how it goes, and all what they have."""
        workers = self._comm.size
        with self._sums:
            for number in range(self._arguments.rounds):
                if (self._number, number) == (self._arguments.kill, self._arguments.in_round):
                    # While the sum is under way, and not before it.
                    threading.Timer(self._arguments.after, _kill_this_process).start()
                contributors = self._average()
                if self._sums.communicator.rank == 0:
                    print(
                        f"round {number}: loss {self.model.loss(self._testing):.4f} after the "
                        f"changes of {len(contributors)} of {workers} workers",
                        flush=True,
                    )
        print(f"model {self.model.digest()}", flush=True)
        self._sums.communicator.close()

    def _average(self) -> tuple[str, ...]:
        """Add the mean of all changes, weighted by samples, to the model; whose they were."""
        change = self.model.change_by(
            self._samples, self._arguments.local_steps, self._arguments.rate
        )
        # How many samples a worker has is nobody's business either.
        result = self._sums.allreduce(np.append(change.ravel() * self._weight, self._weight))
        changes, weights = result.total[:-1], result.total[-1]
        self.model.weights += (changes / weights).reshape(self.model.weights.shape)
        return result.contributors


def _probabilities(scores: Floats) -> Floats:
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    found: Floats = raised / raised.sum(axis=1, keepdims=True)
    return found


def _kill_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(given: Sequence[str] | None = None) -> None:
    """Train, and print the loss after each round."""
    parser = argparse.ArgumentParser(description="federated averaging under masks")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--local-steps", type=int, default=3, help="of each worker in a round")
    parser.add_argument("--rate", type=float, default=0.05, help="of learning")
    parser.add_argument(
        "--threshold",
        type=int,
        help="fewest workers whose sum comes to light; default more than two thirds; the others "
        "may die",
    )
    parser.add_argument("--kill", type=int, metavar="RANK", help="a worker that dies")
    parser.add_argument("--in-round", type=int, default=3, help="in which round; default 3")
    parser.add_argument("--after", type=float, default=0.0, metavar="S", help="and how late in it")
    try:
        Worker(parser.parse_args(given)).run()
    except (CollectiveError, SecurityError) as error:
        sys.exit(f"{error} (--threshold is MaskedSum's threshold)")


if __name__ == "__main__":
    main()
