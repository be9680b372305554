"""Adds arrays of known values again and again, while a neighbour on the same switch attacks."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

import innet

ELEMENTS = 1 << 15
STEPS = 20


def contribution(rank: int, step: int) -> np.ndarray:
    return np.random.default_rng((rank, step)).standard_normal(ELEMENTS).astype(np.float32)


meeting_place = Path(sys.argv[1])
comm = innet.init()
print("open", flush=True)
while not (meeting_place / "attacking").exists():
    time.sleep(0.01)
wrong = 0
for step in range(STEPS):
    total = comm.allreduce(contribution(comm.rank, step))
    expected = contribution(0, step) + contribution(1, step)
    wrong += not np.array_equal(total, expected)
print("wrong steps:", wrong)
