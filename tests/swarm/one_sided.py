"""Puts and gets of a scenario: every rank writes one array of the root, and reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from innet.collectives import Communicator
from innet.collectives.one_sided import Combine, Snapshot
from tests.swarm.scenario import Call

STAGES = 2
"""A put and a get: each may take the whole timeout."""
_WHOLE = ("uint8", "int32", "int64")


async def put_and_get(comm: Communicator, call: Call, array: NDArray[Any], name: str) -> Snapshot:
    """What is there once this rank has put its own: at least that."""
    if comm.rank == call.root:
        comm.register(name, np.zeros_like(array))
    combine: Combine = "sum" if call.dtype in _WHOLE else "replace"
    version = await comm.iput(name, call.root, array, combine=combine)
    return await comm.iget(name, call.root, at_least=version)


def fault_of_snapshot(
    comm: Communicator, call: Call, inputs: Sequence[NDArray[Any]], snapshot: Snapshot
) -> str | None:
    """What is wrong with it; ``None`` when nothing is."""
    if not 1 <= snapshot.version <= comm.size:
        return f"is of version {snapshot.version}, of {comm.size} puts"
    if call.dtype not in _WHOLE:
        known = any(snapshot.array.tobytes() == array.tobytes() for array in inputs)
        return None if known else "is none of what was put"
    # The inputs are zeros and ones.
    total = np.sum(inputs, axis=0)
    least = inputs[comm.rank]
    if snapshot.version == comm.size:
        return None if np.array_equal(snapshot.array, total) else "lacks something that was put"
    within = np.all(snapshot.array >= least) and np.all(snapshot.array <= total)
    return None if within else "is no sum of what was put"
