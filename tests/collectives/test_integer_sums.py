"""A sum of integers does not depend on who adds what: exact, an error, or modulo 2**n."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from innet.collectives import Communicator
from innet.collectives.partial import KOfN
from innet.errors import CollectiveError, ReductionOverflow
from innet.topology import load_topology
from tests.collectives.cluster import Cluster

RANKS = 4
TYPES = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
ALGORITHMS = ("inc", "ps", "ring", "halving-doubling")

Columns = list[list[int]]
"""By element, the number of each rank."""


@pytest.fixture(scope="module", params=["star:4", "leaf-spine:2x2x2"])
def groups(request):
    """Communicators of all algorithms over one network, and of a subgroup in another order."""
    with Cluster(load_topology(request.param), segment_bytes=256) as cluster:
        made = {name: cluster.group(name, cluster.plan.ranks, name) for name in ALGORITHMS}
        made["backwards"] = cluster.group("backwards", cluster.plan.ranks[::-1], "inc")
        yield cluster, made


def numbers(dtype: str) -> st.SearchStrategy[int]:
    limits = np.iinfo(dtype)
    half = limits.max // 2 + 1
    extremes = st.sampled_from([limits.min, limits.max, half, -half if limits.min else 1, 0, 1])
    return extremes | st.integers(int(limits.min), int(limits.max))


@st.composite
def columns(draw: Any) -> tuple[str, Columns]:
    dtype = draw(st.sampled_from(TYPES))
    column = st.lists(numbers(dtype), min_size=RANKS, max_size=RANKS)
    return dtype, draw(st.lists(column, min_size=1, max_size=3))


def outcome(call: Any) -> Any:
    try:
        return call().tolist()
    except ReductionOverflow:
        return ReductionOverflow


def wrapped(total: int, dtype: str) -> int:
    return int(np.array(total % 2 ** (8 * np.dtype(dtype).itemsize), "u8").astype(dtype))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(columns(), st.integers(0, 300), st.randoms(use_true_random=False))
@example(("int64", [[2**62, 2**62, -(2**62), 0]]), 0, None)
@example(("int64", [[0, -(2**62), 2**62, 2**62]]), 0, None)
@example(("uint8", [[255, 1, 0, 0], [0, 0, 0, 0]]), 0, None)
@example(("int32", [[-(2**31), -1, 0, 1], [2**31 - 1, 1, 0, -1]]), 0, None)
def test_the_outcome_depends_on_the_sum_alone(groups, given_columns, padding, random):
    """Not on the algorithm, the order of the ranks, the tree or the other elements."""
    cluster, made = groups
    dtype, table = given_columns
    if random is not None:
        for column in table:
            random.shuffle(column)
    table = table + [[0] * RANKS] * padding
    arrays = [np.array([column[rank] for column in table], dtype) for rank in range(RANKS)]
    totals = [sum(column) for column in table]
    limits = np.iinfo(dtype)
    fits = all(limits.min <= total <= limits.max for total in totals)
    modulo = [wrapped(total, dtype) for total in totals]
    for communicators in made.values():

        def program(comm: Communicator) -> Any:
            mine = arrays[comm.rank]
            comm.overflow = "raise"
            checked = outcome(lambda: comm.allreduce(mine))
            again = outcome(lambda: comm.allreduce(mine))
            in_place = mine.copy()
            assert outcome(lambda: comm.allreduce(in_place, out=in_place)) == checked
            of_ready = outcome(lambda: comm.allreduce_of(mine, KOfN(RANKS)).total)
            comm.overflow = "wrap"
            return checked, again, of_ready, comm.allreduce(mine).tolist()

        expected = totals if fits else ReductionOverflow
        for found in cluster.run(program, communicators):
            assert found == (expected, expected, expected, modulo)


@settings(max_examples=15, deadline=None)
@given(columns(), st.sampled_from(["prod", "min", "max"]))
def test_other_reductions_of_integers_are_numpy_s(groups, given_columns, op):
    """Products wrap around, as NumPy's do."""
    cluster, made = groups
    dtype, table = given_columns
    arrays = [np.array([column[rank] for column in table], dtype) for rank in range(RANKS)]
    ufunc = {"prod": np.multiply, "min": np.minimum, "max": np.maximum}[op]
    expected = ufunc.reduce(np.stack(arrays), dtype=dtype).tolist()
    for communicators in made.values():
        found = cluster.run(lambda comm: comm.allreduce(arrays[comm.rank], op), communicators)
        assert [one.tolist() for one in found] == [expected] * RANKS


def test_only_the_ranks_whose_part_does_not_fit_get_the_error(groups):
    cluster, made = groups
    for communicators in made.values():

        def program(comm: Communicator) -> Any:
            comm.overflow = "raise"
            mine = np.zeros(RANKS, np.int32)
            mine[1] = 2**30
            scattered = outcome(lambda: comm.reduce_scatter(mine))
            rooted = outcome(
                lambda: (
                    comm.reduce(mine, root=2)
                    if comm.rank == 2
                    else comm.reduce(mine, root=2) or np.zeros(1)
                )
            )
            comm.barrier()
            return scattered, rooted

        found = cluster.run(program, communicators)
        assert [scattered for scattered, _ in found] == [[0], ReductionOverflow, [0], [0]]
        assert [rooted for _, rooted in found] == [[0.0], [0.0], ReductionOverflow, [0.0]]


@pytest.mark.parametrize("op", ["sum", "prod"])
def test_values_by_key(groups, op):
    cluster, made = groups
    keys = np.array([3, 9, 700], np.uint64)
    columns = [[2**62, 1, 5], [2**62, 2**62, 1], [-(2**62), 2**62, 1], [0, -1, 1]]
    for communicators in made.values():
        for raises in (False, True):

            def program(comm: Any, raises: bool = raises) -> Any:
                comm.overflow = "raise"
                mine = np.array(columns[comm.rank], np.int64)
                mine[1] += 2 if raises and comm.rank == 0 else 0
                checked = outcome(lambda: comm.reduce_by_key(keys, mine, op)[1])
                comm.overflow = "wrap"
                return checked, comm.reduce_by_key(keys, mine, op)[1].tolist()

            stacked = np.array(columns, np.int64)
            stacked[0, 1] += 2 if raises else 0
            with np.errstate(over="ignore"):
                modulo = (stacked.sum(0) if op == "sum" else stacked.prod(0)).tolist()
            exact = sum(int(n) for n in stacked[:, 1])
            fails = op == "sum" and exact > 2**63 - 1
            expected = ReductionOverflow if fails else modulo
            assert cluster.run(program, communicators) == [(expected, modulo)] * RANKS


def test_the_error_names_what_to_do_and_other_values_are_refused(groups):
    cluster, made = groups

    def program(comm: Communicator) -> str:
        comm.overflow = "raise"
        with pytest.raises(
            ReductionOverflow, match=r'wider type.*comm\.overflow = "wrap"'
        ) as error:
            comm.allreduce(np.array([200], np.uint8))
        with pytest.raises(CollectiveError, match="raise, wrap"):
            comm.overflow = "saturate"  # type: ignore[assignment]
        return str(error.value)

    for said in cluster.run(program, made["inc"]):
        assert "sum.u8" in said
