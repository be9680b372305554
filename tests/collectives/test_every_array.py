"""Every collective of arrays of any shape, type and layout gives what NumPy gives."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from innet.collectives import Communicator
from innet.collectives.partial import KOfN
from innet.errors import CollectiveError, MismatchError
from innet.plans.element_types import element_type_of
from innet.plans.reference import reduce_operands
from innet.topology import load_topology
from tests.collectives.arrays_of_any_kind import (
    COPIED,
    INTEGERS,
    LAYOUTS,
    REDUCIBLE,
    WRITABLE,
    Array,
    equal_bits,
    shapes,
    values,
)
from tests.collectives.cluster import Cluster

RANKS = 3
numbers = itertools.count()
ALGORITHMS = ("inc", "ps", "ring", "halving-doubling")

examples = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


class Group:
    """The communicators of a group, one thread each."""

    def __init__(self, cluster: Cluster, communicators: list[Communicator]) -> None:
        self._cluster = cluster
        self.communicators = communicators
        self.size = len(communicators)

    def run(self, program: Any) -> list[Any]:
        """Results of ``program(communicator, rank)`` by rank."""
        by_id = {id(comm): rank for rank, comm in enumerate(self.communicators)}
        found = self._cluster.run(lambda comm: program(comm, by_id[id(comm)]), self.communicators)
        for one in found:
            if isinstance(one, Exception):
                raise one
        return found


@pytest.fixture(scope="module", params=[*ALGORITHMS, "subgroup"])
def group(request):
    with Cluster(
        load_topology("star:4"),
        "inc" if request.param == "subgroup" else request.param,
        segment_bytes=512,
    ) as cluster:
        communicators = cluster.communicators
        if request.param == "subgroup":
            communicators = cluster.group("sub", ["h3", "h1", "h2"], "ring")
        yield Group(cluster, communicators)


def contributions(data: Any, group: Group, dtypes: list[Any], shape: Any = None) -> list[Array]:
    """One array of each rank, of one type and shape, each in a layout of its own."""
    dtype = data.draw(st.sampled_from(dtypes))
    shape = data.draw(shapes()) if shape is None else shape
    layouts = st.sampled_from(sorted(LAYOUTS))
    return [LAYOUTS[data.draw(layouts)](values(dtype, shape, rank)) for rank in range(group.size)]


def result_array(data: Any, shape: tuple[int, ...], dtype: Any) -> Array | None:
    """None, or an array for the result in some layout, with other numbers in it."""
    layout = data.draw(st.sampled_from(["none", *sorted(WRITABLE)]))
    return None if layout == "none" else WRITABLE[layout](values(dtype, shape, 99))


def check(given_arrays: list[Array], outs: list[Any], results: list[Any], expected: Any) -> None:
    """Each rank's result is the expected one, in ``out`` if there was one."""
    for rank, result in enumerate(results):
        want = expected[rank] if isinstance(expected, list) else expected
        if want is None:
            assert result is None
            continue
        assert equal_bits(result, want), (rank, result, want)
        assert outs[rank] is None or result is outs[rank]


def joined(join: Any, arrays: list[Array]) -> Any:
    """NumPy's ``stack`` or ``concatenate``, which change the byte order of fields."""
    return join([np.asarray(array) for array in arrays]).astype(arrays[0].dtype)


def operations_of(dtype: Any) -> tuple[str, ...]:
    element = element_type_of(np.dtype(dtype))
    return () if element is None else element.operations


def reduced(arrays: list[Array], op: str) -> Array:
    return reduce_operands([np.asarray(array) for array in arrays], op)


@examples
@given(st.data())
def test_allreduce(group, data):
    op = data.draw(st.sampled_from(["sum", "min", "max", "prod", "bor", "bxor", "band"]))
    dtypes = [name for name in REDUCIBLE if op in operations_of(name)]
    arrays = contributions(data, group, dtypes)
    before = [array.copy() for array in arrays]
    outs = [result_array(data, array.shape, array.dtype) for array in arrays]
    results = group.run(lambda comm, rank: comm.allreduce(arrays[rank], op, outs[rank]))
    check(arrays, outs, results, reduced(before, op))
    assert all(equal_bits(*pair) for pair in zip(arrays, before, strict=True))


@examples
@given(st.data())
def test_a_result_over_any_part_of_the_contribution(group, data):
    """The array itself, another view of it, and one that begins some elements later."""
    dtype = data.draw(st.sampled_from(REDUCIBLE))
    size = data.draw(st.sampled_from([1, 5, 300, 2000]))
    shift = data.draw(st.sampled_from([0, 1, 130]))
    memories = [values(dtype, (size + shift,), rank) for rank in range(group.size)]
    arrays = [memory[:size] for memory in memories]
    before = [array.copy() for array in arrays]
    in_place = shift == 0 and data.draw(st.booleans())
    outs = [
        array if in_place else memory[shift:]
        for array, memory in zip(arrays, memories, strict=True)
    ]
    for _ in range(3):  # the third goes the short way of repeated calls
        for array, old in zip(arrays, before, strict=True):
            array[...] = old
        results = group.run(lambda comm, rank: comm.allreduce(arrays[rank], out=outs[rank]))
        check(arrays, outs, results, reduced(before, "sum"))


@examples
@given(st.data())
def test_reduce_and_reduce_scatter(group, data):
    shape = (group.size * data.draw(st.integers(0, 2)), *data.draw(shapes()))
    arrays = contributions(data, group, REDUCIBLE, shape)
    root = data.draw(st.integers(0, group.size - 1))
    total = reduced(arrays, "sum")
    outs = [result_array(data, shape, arrays[0].dtype) for _ in arrays]
    results = group.run(lambda comm, rank: comm.reduce(arrays[rank], root, out=outs[rank]))
    at_root = [total if rank == root else None for rank in range(group.size)]
    check(arrays, outs, results, at_root)
    blocks = np.split(total, group.size)
    outs = [result_array(data, blocks[0].shape, total.dtype) for _ in arrays]
    results = group.run(lambda comm, rank: comm.reduce_scatter(arrays[rank], out=outs[rank]))
    check(arrays, outs, results, blocks)


@examples
@given(st.data())
def test_allgather_and_gather(group, data):
    arrays = contributions(data, group, COPIED)
    stacked = joined(np.stack, arrays)
    root = data.draw(st.integers(0, group.size - 1))
    for name, at in (("allgather", None), ("gather", root)):
        outs = [result_array(data, stacked.shape, stacked.dtype) for _ in arrays]
        where = {} if at is None else {"root": at}
        results = group.run(
            lambda comm, rank, name=name, outs=outs, where=where: getattr(comm, name)(
                arrays[rank], out=outs[rank], **where
            )
        )
        wanted = [stacked if at in (None, rank) else None for rank in range(group.size)]
        check(arrays, outs, results, wanted)


@examples
@given(st.data())
def test_gathering_into_the_array_that_holds_the_contribution(group, data):
    """Its own row, as programs gather in place, or any other."""
    dtype, shape = data.draw(st.sampled_from(COPIED)), data.draw(shapes())
    rows = [data.draw(st.integers(0, group.size - 1)) for _ in range(group.size)]
    own = [values(dtype, shape, rank) for rank in range(group.size)]
    outs = [values(dtype, (group.size, *shape), 50) for _ in own]
    for rank, row in enumerate(rows):
        outs[rank][row] = own[rank]
    results = group.run(
        lambda comm, rank: comm.allgather(outs[rank][rows[rank], ...], out=outs[rank])
    )
    check(own, outs, results, joined(np.stack, own))


@examples
@given(st.data())
def test_broadcast_and_scatter(group, data):
    arrays = contributions(data, group, COPIED)
    root = data.draw(st.integers(0, group.size - 1))
    targets = [
        array if rank == root else WRITABLE[data.draw(st.sampled_from(sorted(WRITABLE)))](array)
        for rank, array in enumerate(arrays)
    ]
    results = group.run(lambda comm, rank: comm.broadcast(targets[rank], root))
    check(arrays, targets, results, np.array(arrays[root]))
    stacked = joined(np.stack, arrays)
    outs = [
        result_array(data, arrays[0].shape, stacked.dtype) if rank == root else targets[rank]
        for rank in range(group.size)
    ]
    shape = (1,) if arrays[0].ndim == 0 else arrays[0].shape
    outs = [None if out is None else np.empty(shape, stacked.dtype) for out in outs]
    source = joined(np.concatenate, [np.asarray(array).reshape(shape) for array in arrays])
    results = group.run(
        lambda comm, rank: comm.scatter(source if rank == root else None, root, outs[rank])
    )
    check(arrays, outs, results, np.split(source, group.size))


@examples
@given(st.data())
def test_alltoall_beside_in_and_over_its_input(group, data):
    shape = (group.size * data.draw(st.integers(0, 2)), *data.draw(shapes()))
    arrays = contributions(data, group, COPIED, shape)
    blocks = [np.split(np.array(array), group.size) for array in arrays]
    expected = [
        joined(np.concatenate, [blocks[source][rank] for source in range(group.size)])
        for rank in range(group.size)
    ]
    over = data.draw(st.booleans())
    outs = [result_array(data, shape, arrays[0].dtype) for _ in arrays]
    if over:
        arrays = [np.array(array) for array in arrays]
        outs = [array[...] for array in arrays]
    results = group.run(lambda comm, rank: comm.alltoall(arrays[rank], outs[rank]))
    check(arrays, outs, results, expected)


@examples
@given(st.data())
def test_messages(group, data):
    arrays = contributions(data, group, COPIED)
    into = [
        WRITABLE[data.draw(st.sampled_from(sorted(WRITABLE)))](values(a.dtype, a.shape, 9))
        for a in arrays
    ]
    any_source = data.draw(st.booleans())

    def ring(comm: Communicator, rank: int) -> Array:
        sent = comm.isend(arrays[rank], (rank + 1) % group.size, tag=7 + any_source)
        if any_source:
            assert comm.recv_any(into[rank], tag=8) == (rank - 1) % group.size
        else:
            comm.recv(into[rank], (rank - 1) % group.size, tag=7)
        sent.wait()
        return into[rank]

    expected = [np.array(arrays[rank - 1]) for rank in range(group.size)]
    check(arrays, into, group.run(ring), expected)


@examples
@given(st.data())
def test_objects_and_registered_arrays(group, data):
    named = [dtype for dtype in REDUCIBLE if np.dtype(dtype).name != "bool"]
    arrays = contributions(data, group, named)
    array, owner, peer = arrays[0], group.communicators[0], group.communicators[1]
    name = f"of/{next(numbers)}"
    owner.publish(name, array)
    out = WRITABLE[data.draw(st.sampled_from(sorted(WRITABLE)))](
        values(array.dtype, array.shape, 9)
    )
    assert equal_bits(peer.fetch(name, 0, out=out), np.array(array))
    owner.withdraw(name)
    owner.register(name, np.array(values(array.dtype, array.shape, 3)))
    peer.put(name, 0, array)
    got = result_array(data, array.shape, array.dtype)
    assert equal_bits(peer.get(name, 0, out=got).array, np.array(array))


@examples
@given(st.data())
def test_sums_over_the_ranks_that_are_ready(group, data):
    arrays = contributions(data, group, REDUCIBLE)
    before = [np.array(array) for array in arrays]
    outs = [result_array(data, array.shape, array.dtype) for array in arrays]
    if data.draw(st.booleans()):
        arrays = [np.array(array) for array in arrays]
        outs = [array[...] for array in arrays]
    results = group.run(
        lambda comm, rank: comm.allreduce_of(arrays[rank], KOfN(group.size), out=outs[rank]).total
    )
    check(arrays, outs, results, reduced(before, "sum"))


@examples
@given(st.data())
def test_reductions_by_key(group, data):
    """Keys and values in any layout and byte order, and as lists."""
    size = data.draw(st.sampled_from([0, 1, 40]))
    layouts = st.sampled_from(sorted(LAYOUTS))
    swaps = st.sampled_from(["<", ">"])
    keys, given_pairs = [], []
    for rank in range(group.size):
        own = np.random.default_rng(rank).integers(0, 9, size).astype(data.draw(swaps) + "u8")
        worth = own.astype(data.draw(swaps) + "i8") + 1
        keys.append(own)
        pair = [LAYOUTS[data.draw(layouts)](part) for part in (own, worth)]
        given_pairs.append(pair)
    results = group.run(lambda comm, rank: comm.reduce_by_key(*given_pairs[rank]))
    everything = np.concatenate(keys).astype("u8")
    found, counts = np.unique(everything, return_counts=True)
    for keys_found, sums in results:
        assert keys_found.tolist() == found.tolist()
        assert sums.tolist() == ((found + 1) * counts).tolist()


@examples
@given(st.data())
def test_repeated_calls_of_numbers_of_python_s_and_numpy_s(group, data):
    """A scalar of NumPy is an array without axes; Python's numbers are refused with what to do."""
    dtype = data.draw(st.sampled_from(INTEGERS))
    scalar = np.dtype(dtype).type
    totals = group.run(lambda comm, rank: comm.allreduce(scalar(rank)))
    assert [total.shape for total in totals] == [()] * group.size
    assert [int(total) for total in totals] == [sum(range(group.size))] * group.size
    rows = group.run(lambda comm, rank: comm.allgather(np.asarray(1.5 * rank)))
    assert all(row.tolist() == [1.5 * rank for rank in range(group.size)] for row in rows)
    for call in ("allreduce", "allgather", "alltoall", "reduce_scatter"):
        with pytest.raises(CollectiveError, match=r"float is not a NumPy array; pass numpy\.as"):
            group.run(lambda comm, rank, call=call: getattr(comm, call)(1.5))


class Quantity(np.ndarray):
    """As units of measurement have it."""


REFUSED = {
    "a mask": (np.ma.masked_array([1.0, 2.0], [False, True]), r"mask, which would be ignored"),
    "the masked element": (np.ma.masked, "mask, which would be ignored"),
    "a matrix": (np.asmatrix([[1.0, 2.0]]), r"matrix is more than its numbers"),
    "records": (np.zeros(2, "i4,f8").view(np.recarray), "recarray is more than its numbers"),
    "a unit": (np.ones(2).view(Quantity), "Quantity is more than its numbers"),
    "objects": (np.array([1, None, 2]), "object"),
    "a list": ([1.0, 2.0], "list is not a NumPy array"),
    "nothing": (None, "NoneType is not a NumPy array"),
}
CALLS = {
    "allreduce": lambda comm, array: comm.allreduce(array),
    "allreduce out": lambda comm, array: comm.allreduce(np.ones(2), out=array),
    "allreduce_q8": lambda comm, array: comm.allreduce_q8(array),
    "reduce": lambda comm, array: comm.reduce(array),
    "reduce_scatter": lambda comm, array: comm.reduce_scatter(array),
    "allgather": lambda comm, array: comm.allgather(array),
    "gather": lambda comm, array: comm.gather(array),
    "broadcast": lambda comm, array: comm.broadcast(array),
    "scatter": lambda comm, array: comm.scatter(array if comm.rank == 0 else None, out=array),
    "alltoall": lambda comm, array: comm.alltoall(array),
    "send": lambda comm, array: comm.send(array, 1 - min(comm.rank, 1)),
    "recv": lambda comm, array: comm.recv(array, 1 - min(comm.rank, 1), 5, timeout_s=0.2),
    "recv_any": lambda comm, array: comm.recv_any(array, tag=6),
    "register": lambda comm, array: comm.register(f"refused/{comm.rank}", array),
    "put": lambda comm, array: comm.put("refused", 0, array, timeout_s=0.2),
    "fetch": lambda comm, array: comm.fetch("refused", 0, out=array, timeout_s=0.2),
    "allreduce_blocks": lambda comm, array: comm.allreduce_blocks(array),
    "allreduce_of": lambda comm, array: comm.allreduce_of(array, KOfN(1)),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("call", CALLS)
def test_arrays_that_are_more_than_their_numbers_are_refused_by_name(one_group, call, name):
    value, message = REFUSED[name]
    if value is None and call in ("allreduce out", "fetch", "scatter"):
        pytest.skip("no array is the default there")

    def refused(comm: Communicator, rank: int) -> str:
        with pytest.raises(CollectiveError) as error:
            CALLS[call](comm, value)
        return str(error.value)

    said = one_group.run(refused)
    assert any(word in said[0] for word in (message, "objects", "object")), said
    assert one_group.run(lambda comm, rank: int(comm.allreduce(np.ones(1))[0])) == [RANKS] * RANKS


@pytest.fixture(scope="module")
def one_group():
    with Cluster(load_topology(f"star:{RANKS}")) as cluster:
        yield Group(cluster, cluster.communicators)


@pytest.mark.parametrize("value", [REFUSED["a mask"][0], np.asmatrix([1.0, 2.0])])
def test_values_by_key_with_a_mask_are_refused(one_group, value):
    def refused(comm: Communicator, rank: int) -> None:
        with pytest.raises(CollectiveError, match=r"mask|matrix"):
            comm.reduce_by_key(np.arange(2, dtype=np.uint64), value)
        with pytest.raises(CollectiveError, match=r"mask|matrix"):
            comm.allreduce_sparse(np.arange(2), value, 2)

    one_group.run(refused)


def test_a_result_whose_elements_share_memory_is_refused(one_group):
    view = np.lib.stride_tricks.as_strided(np.zeros(1), (4,), (0,))

    def refused(comm: Communicator, rank: int) -> None:
        with pytest.raises(CollectiveError, match="share memory"):
            comm.broadcast(view, (rank + 1) % RANKS)

    one_group.run(refused)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.zeros(2, "M8[s]"), np.zeros(2, "M8[ns]")),
        (np.zeros(2, "S8"), np.zeros(2, "M8[s]")),
        (np.zeros(2, "U2"), np.zeros(2, "S8")),
        (np.zeros(2, [("a", "i4"), ("b", "f4")]), np.zeros(2, [("b", "f4"), ("a", "i4")])),
    ],
)
def test_types_of_one_size_and_another_meaning_are_a_mismatch(one_group, one, other):
    def differ(comm: Communicator, rank: int) -> None:
        with pytest.raises(MismatchError) as error:
            comm.allgather(one if rank == 0 else other)
        assert str(one.dtype) in str(error.value) or str(other.dtype) in str(error.value)

    one_group.run(differ)
