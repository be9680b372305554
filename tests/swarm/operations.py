"""The collectives of a scenario: how a rank calls one, and what it must get."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import innet
from innet.collectives import Communicator, Work
from innet.collectives.partial import PartialSum
from innet.plans import evaluate, evaluate_allreduce
from tests.swarm.one_sided import fault_of_snapshot, put_and_get
from tests.swarm.scenario import Call

Array = NDArray[Any]

_WHOLE = ("uint8", "int32", "int64")
_COMPLEX_OPERATIONS = ("sum", "prod")
_IN_BLOCKS = ("reduce_scatter", "scatter", "alltoall")


def operation_of(call: Call) -> str:
    """The reduction that the call uses: not all know complex numbers."""
    if call.dtype == "complex64" and call.op not in _COMPLEX_OPERATIONS:
        return "sum"
    return call.op


@lru_cache(maxsize=32)
def inputs_of(call: Call, number: int, seed: int, size: int) -> tuple[Array, ...]:
    """The array of each rank; small whole numbers where products and sums must not overflow."""
    rng = np.random.default_rng((seed, number))
    shape = (size, call.elements) if call.collective in _IN_BLOCKS else (call.elements,)
    if call.collective == "reduce_by_key":
        return tuple(rng.integers(0, 2 * call.elements + 1, shape) for _ in range(size))
    dtype = "float32" if call.collective == "allreduce_q8" else call.dtype
    if dtype in _WHOLE:
        return tuple(rng.integers(0, 2, shape, np.uint8).astype(dtype) for _ in range(size))
    return tuple((rng.random(shape, np.float32) - 0.5).astype(dtype) for _ in range(size))


Operation = Work[Any] | asyncio.Future[Any]


def start(comm: Communicator, call: Call, array: Array, number: int) -> Operation | None:
    """Make a group's call of that number on one rank; ``None`` when it has no part in it."""
    out = array if call.in_place else None
    root, op = call.root, operation_of(call)
    calls: dict[str, Callable[[], Operation | None]] = {
        "allreduce": lambda: comm.iallreduce(array, op, out=out),
        "reduce": lambda: comm.ireduce(array, root, op),
        "reduce_scatter": lambda: comm.ireduce_scatter(array, op),
        "allgather": lambda: comm.iallgather(array),
        "broadcast": lambda: comm.ibroadcast(array, root),
        "gather": lambda: comm.igather(array, root),
        "scatter": lambda: comm.iscatter(array, root, out=np.empty_like(array[:1])),
        "alltoall": lambda: comm.ialltoall(array),
        "barrier": comm.ibarrier,
        "message": lambda: _message(comm, root, array),
        "allreduce_q8": lambda: comm.iallreduce_q8(array, out=out),
        "reduce_by_key": lambda: comm.ireduce_by_key(array, np.ones_like(array)),
        "allreduce_of": lambda: comm.iallreduce_of(
            array, innet.KOfN(call.k, call.patience_s), op, out=out
        ),
        "object": lambda: _object(comm, root, array, f"of/{number}"),
        "one_sided": lambda: asyncio.ensure_future(put_and_get(comm, call, array, f"of/{number}")),
        "mismatch": lambda: comm.iallreduce(array[: array.size - (comm.rank == root)]),
    }
    return calls[call.collective]()


def _object(comm: Communicator, source: int, array: Array, name: str) -> Work[Any]:
    if comm.rank == source:
        return comm.ipublish(name, array)
    return comm.ifetch(name, source)


def _message(comm: Communicator, sender: int, array: Array) -> Work[Any] | None:
    receiver = (sender + 1) % comm.size
    if comm.rank == sender:
        return comm.isend(array, receiver, tag=1)
    if comm.rank == receiver:
        return comm.irecv(np.empty_like(array), sender, tag=1)
    return None


def fault_of(comm: Communicator, call: Call, inputs: Sequence[Array], result: Any) -> str | None:
    """What is wrong with the result of a call that ended well; ``None`` when nothing is."""
    if call.collective == "mismatch":
        return "ended well although ranks called with different shapes"
    if call.collective == "reduce_by_key":
        return _fault_of_keys(inputs, *result)
    if call.collective == "allreduce_of":
        return _fault_of_partial(comm, call, inputs, result)
    if call.collective == "one_sided":
        return fault_of_snapshot(comm, call, inputs, result)
    if call.collective == "allreduce_q8":
        total = np.sum(inputs, axis=0)
        close = np.allclose(result, total, atol=0.05 * comm.size)
        return None if close else "is far from the sum"
    due = expected(comm, call, inputs)
    if due is None or np.asarray(result).tobytes() == due.tobytes():
        return None
    return "has other bits than its expression"


def _fault_of_keys(inputs: Sequence[Array], keys: Array, values: Array) -> str | None:
    due_keys, due_values = np.unique(np.concatenate(inputs), return_counts=True)
    fits = np.array_equal(keys, due_keys) and np.array_equal(values, due_values)
    return None if fits else "has other pairs than the ranks gave"


def _fault_of_partial(
    comm: Communicator, call: Call, inputs: Sequence[Array], result: PartialSum
) -> str | None:
    if not call.k <= len(result.contributors) <= comm.size:
        return f"has {len(result.contributors)} contributors, and {call.k} were wanted"
    if result.included != (comm.rank in result.contributors):
        return "does not say rightly whether this rank is in it"
    due = _reduced(comm, call, inputs, result.contributors)
    return None if result.total.tobytes() == due.tobytes() else "has other bits than its expression"


def agreed_part(call: Call, result: Any) -> bytes | None:
    """What must be the same on every rank; ``None`` when nothing must."""
    if call.collective == "allreduce_of":
        return bytes(result.contributors) + bytes(result.total.tobytes())
    if call.collective in ("allreduce_q8", "allreduce"):
        return np.asarray(result).tobytes()
    return None


def expected(comm: Communicator, call: Call, inputs: Sequence[Array]) -> Array | None:
    """The bits that the rank of ``comm`` gets; ``None`` when that is nothing."""
    rank, root = comm.rank, call.root
    match call.collective:
        case "allreduce":
            return _reduced(comm, call, inputs)
        case "reduce":
            return _reduced(comm, call, inputs) if rank == root else None
        case "reduce_scatter":
            return _reduced_block(comm, call, inputs)
        case "allgather":
            return np.stack(inputs)
        case "broadcast":
            return inputs[root]
        case "object":
            return inputs[root] if rank != root else None
        case "gather":
            return np.stack(inputs) if rank == root else None
        case "scatter":
            return np.asarray(inputs[root][rank])
        case "alltoall":
            return np.stack([array[rank] for array in inputs])
        case "message":
            return inputs[root] if rank == (root + 1) % comm.size else None
        case _:
            return None


def _by_position(comm: Communicator, inputs: Sequence[Array]) -> list[Array]:
    plan = comm.plan_for(inputs[0].nbytes)
    return [inputs[comm.nodes.index(node)] for node in plan.ranks]


def _reduced(
    comm: Communicator,
    call: Call,
    inputs: Sequence[Array],
    contributors: Sequence[int] | None = None,
) -> Array:
    plan = comm.plan_for(inputs[0].nbytes)
    members = None
    if contributors is not None:
        members = [plan.ranks.index(comm.nodes[rank]) for rank in contributors]
    elements = max(1, comm.segment_bytes // inputs[0].itemsize)
    with np.errstate(all="ignore"):
        by_position = _by_position(comm, inputs)
        return evaluate_allreduce(plan, by_position, operation_of(call), elements, members)


def _reduced_block(comm: Communicator, call: Call, inputs: Sequence[Array]) -> Array:
    plan = comm.plan_for(inputs[0].nbytes)
    position = plan.ranks.index(comm.nodes[comm.rank])
    blocks = [array[comm.rank] for array in _by_position(comm, inputs)]
    with np.errstate(all="ignore"):
        return evaluate(plan, position, blocks, operation_of(call))
