"""Gradient descent until a file appears; every step's sums are compared with NumPy's, to the bit.

training.py STOP_FILE PACE_S

Each host has a quadratic loss of its own, whose gradient the others can compute as well. A host
whose process died comes back with nothing, and gets the weights from one that has them.
"""

import hashlib
import sys
import time
from pathlib import Path

import numpy as np

import innet
from innet.errors import RankFailed
from innet.plans import evaluate_allreduce

BUCKETS = (30_000, 9_001)
"""Elements of each gradient: several segments, and a last one that is not full."""
RATE = np.float32(0.05)
STEPS_PER_LINE = 25
TIMEOUT_S = 90.0

stop_file, pace_s = Path(sys.argv[1]), float(sys.argv[2])


class Training:
    """The weights, and what has been done with them."""

    def __init__(self):
        self.steps = 0
        self.weights = [np.zeros(elements, np.float32) for elements in BUCKETS]
        self._losses = {}

    def gradients(self, node, step):
        """Of one host in one step: no two of them alike, so that none can stand for another."""
        if node not in self._losses:
            random = np.random.default_rng([int(node[1:])])
            self._losses[node] = [
                (random.random(n, np.float32), random.standard_normal(n, np.float32))
                for n in BUCKETS
            ]
        noise = np.float32(1 + step % 7)
        return [
            curvature * (weights - noise * target)
            for weights, (curvature, target) in zip(self.weights, self._losses[node], strict=True)
        ]

    def step(self, comm):
        """One step; whether somebody has been told to stop."""
        everybodys = [self.gradients(node, self.steps) for node in comm.nodes]
        stops = comm.iallreduce(np.array([stop_file.exists(), 1]))
        under_way = [comm.iallreduce(gradient) for gradient in everybodys[comm.rank]]
        sums = [work.wait() for work in under_way]
        for bucket, total in enumerate(sums):
            check(comm, [gradients[bucket] for gradients in everybodys], total, self.steps)
        told, present = stops.wait()
        assert present == comm.size, f"step {self.steps}: {present} of {comm.size} ranks counted"
        for weights, total in zip(self.weights, sums, strict=True):
            weights -= RATE / np.float32(comm.size) * total
        self.steps += 1
        return bool(told)

    def agree(self, comm):
        """All go on from where the furthest is: what it knows, others may have missed."""
        steps = comm.allgather(np.array([self.steps]))
        furthest = int(steps.argmax())
        self.steps = int(steps.max())
        self.weights = [comm.broadcast(weights, furthest) for weights in self.weights]

    def digest(self):
        """Of the weights."""
        return hashlib.sha256(b"".join(weights.tobytes() for weights in self.weights)).hexdigest()


def check(comm, gradients, total, step):
    plan = comm.plan_for(total.nbytes)
    expected = evaluate_allreduce(plan, gradients, "sum", comm.segment_bytes_of(total.nbytes) // 4)
    assert total.tobytes() == expected.tobytes(), f"WRONG: step {step} of {total.size} elements"


def joined():
    """The first communicator; another rank may die while it comes about."""
    while True:
        try:
            return innet.init(timeout_s=TIMEOUT_S)
        except RankFailed as error:
            print(f"lost: {error}", flush=True)


def main():
    comm = joined()
    training = Training()
    ends = False
    while not ends:
        try:
            training.agree(comm)
            print(f"goes on from step {training.steps} of {len(comm.nodes)} ranks", flush=True)
            while not ends:
                ends = training.step(comm)
                if training.steps % STEPS_PER_LINE == 0:
                    print(f"step {training.steps}", flush=True)
                time.sleep(pace_s)
        except RankFailed as error:
            print(f"lost: {error}", flush=True)
            comm = comm.recover()
    print(f"ends after step {training.steps} with {training.digest()}", flush=True)
    comm.close()


if __name__ == "__main__":
    main()
