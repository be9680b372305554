"""Steps of a training whose computing is a pause, with workers that are slow, always or at times.

Two ways to wait (for all ranks; for ``k`` of them) take turns. Every rank writes nothing but what
rank 0 collects: the time of each step, and what share of the gradients was applied.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

import innet

Vector = npt.NDArray[np.float32]

SLOW_SHARE = 0.05
"""Part of a rank's steps that are slow, where every rank is slow at times."""


class Training:
    """One rank's steps.

    Args:
        comm: of all ranks.
        elements: of the gradient.
        compute_s: of a step.
        slow_factor: how many times longer a slow step takes.
        steps: of a turn: updates of the weights.
    """

    def __init__(
        self,
        comm: innet.Communicator,
        elements: int,
        compute_s: float,
        slow_factor: float,
        steps: int,
    ) -> None:
        self._comm = comm
        self._compute_s = compute_s
        self._slow_factor = slow_factor
        self._steps = steps
        self._weights = np.zeros(elements, np.float32)
        self._random = np.random.default_rng(comm.rank)
        self.computed = 0

    def always_slow(self, policy: innet.KOfN | None) -> list[float]:
        """The last rank is slow in all steps; one that is late goes on with the latest weights."""
        slow_share = float(self._comm.rank == self._comm.size - 1)
        return self._timed(self._catching_up(policy, slow_share))

    def slow_at_times(self, policy: innet.KOfN | None) -> list[float]:
        """Every rank is slow in some steps; one that is late goes on with the latest weights."""
        return self._timed(self._catching_up(policy, SLOW_SHARE))

    def slow_at_times_every_step(self, policy: innet.KOfN | None) -> list[float]:
        """The same, but every rank computes every step, as DistributedDataParallel does."""
        return self._timed(self._step_by_step(policy))

    def digest(self) -> str:
        """The same on all ranks whose weights have the same bits."""
        return hashlib.sha256(self._weights.tobytes()).hexdigest()

    def _timed(self, updates: Iterator[None]) -> list[float]:
        self.computed = 0
        self._comm.barrier()
        ends_s = [time.perf_counter()]
        ends_s += [time.perf_counter() for _ in updates]
        return np.diff(ends_s).tolist()

    def _catching_up(self, policy: innet.KOfN | None, slow_share: float) -> Iterator[None]:
        left = self._steps
        while left:
            gradient = self._compute(slow_share)
            included = False
            while left and not included:
                part = self._reduce(gradient, policy, None)
                included, left = part.included, left - 1
                self._weights -= part.mean()
                yield

    def _step_by_step(self, policy: innet.KOfN | None) -> Iterator[None]:
        late = np.zeros_like(self._weights)
        for _ in range(self._steps):
            gradient = self._compute(SLOW_SHARE)
            self._weights -= self._reduce(gradient, policy, late).mean()
            yield

    def _compute(self, slow_share: float) -> Vector:
        is_slow = self._random.random() < slow_share
        time.sleep(self._compute_s * (self._slow_factor if is_slow else 1))
        self.computed += 1
        return self._random.standard_normal(self._weights.size, np.float32)

    def _reduce(
        self, gradient: Vector, policy: innet.KOfN | None, late: Vector | None
    ) -> innet.PartialSum:
        if policy is None:
            everybody = tuple(range(self._comm.size))
            return innet.PartialSum(self._comm.allreduce(gradient), everybody, True)
        return self._comm.allreduce_of(gradient, policy, late=late)


def main() -> None:
    """Take turns, and let rank 0 write down what it saw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--elements", type=int, required=True)
    parser.add_argument("--compute-s", type=float, required=True)
    parser.add_argument("--slow-factor", type=float, required=True)
    parser.add_argument("--deadline-s", type=float, required=True)
    parser.add_argument("--turns", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True, help="of each turn")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    comm = innet.init()
    training = Training(
        comm,
        arguments.elements,
        arguments.compute_s,
        arguments.slow_factor,
        arguments.steps,
    )
    # The first k are enough where who is late catches up, which is what backup workers do.
    waits = {
        "always_slow": (training.always_slow, innet.KOfN(comm.size - 1)),
        "slow_at_times": (training.slow_at_times, innet.KOfN(comm.size - 2)),
        "slow_at_times_every_step": (
            training.slow_at_times_every_step,
            innet.KOfN(comm.size - 2, arguments.deadline_s),
        ),
    }
    step_s: dict[str, list[float]] = {}
    computed: dict[str, list[int]] = {}
    for number in range(arguments.turns):
        for kind, (steps, policy) in waits.items():
            for name, chosen in (("all", None), ("k_of_n", policy)):
                key = f"{kind}_{name}"
                step_s.setdefault(key, []).extend(steps(chosen))
                gradients = comm.allreduce(np.array([training.computed]))
                computed.setdefault(key, []).append(int(gradients[0]))
        if comm.rank == 0:
            print(f"turn {number + 1}/{arguments.turns}", flush=True)
    digests = comm.allgather(np.frombuffer(training.digest().encode(), np.uint8))
    if comm.rank == 0:
        found = {
            "step_s": step_s,
            "computed": computed,
            "same_bits": bool((digests == digests[0]).all()),
        }
        arguments.output.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
