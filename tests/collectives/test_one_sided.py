"""One-sided gets and puts: versions without tears, sums without losses, errors with names."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from types import SimpleNamespace
from typing import Any

import ml_dtypes  # noqa: F401  (makes bfloat16 known to NumPy by name)
import numpy as np
import pytest
from pydantic import ValidationError

from innet._native import _core
from innet.collectives.one_sided import array_server
from innet.collectives.one_sided.array_server import RegisteredArray
from innet.collectives.one_sided.requests import Located, decode_reply
from innet.collectives.work import CompletionSource
from innet.errors import (
    Cancelled,
    CollectiveError,
    DeadlineExceeded,
    MismatchError,
    RankFailed,
    ReductionOverflow,
)
from innet.topology import load_topology
from innet.worker.collector import Callback
from tests.collectives.cluster import Cluster


@pytest.fixture(scope="module")
def trio():
    with Cluster(load_topology("star:3")) as cluster:
        yield cluster


def test_all_ranks_read_and_write_a_registered_array(trio):
    owner, other, third = trio.communicators
    weights = np.arange(5000, dtype=np.float32).reshape(100, 50)
    registered = owner.register("expert/0", weights.copy())
    for comm in (owner, other, third):
        array, version = comm.get("expert/0", source=0)
        assert version == 0
        assert np.array_equal(array, weights)
    assert other.put("expert/0", 0, 2 * weights) == 1
    out = np.empty_like(weights)
    assert third.get("expert/0", 0, out=out).array is out
    assert np.array_equal(out, 2 * weights)
    with registered.writing() as memory:
        memory += 1
    assert registered.version == 2
    assert np.array_equal(other.get("expert/0", 0).array, 2 * weights + 1)


@pytest.mark.parametrize(("first", "end"), [(0, 0), (0, 1), (3, 4), (10, 90), (99, 100), (0, 100)])
def test_rows_are_read_and_written_alone(trio, first, end):
    owner, other, _ = trio.communicators
    table = np.random.default_rng(first).normal(size=(100, 30))
    name = f"table/{first}-{end}"
    owner.register(name, table.copy())
    rows = slice(first, end)
    assert np.array_equal(other.get(name, 0, rows=rows).array, table[rows])
    other.put(name, 0, -table[rows], rows=rows)
    table[rows] *= -1
    assert np.array_equal(other.get(name, 0).array, table)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int64", "uint8", "bool", "complex64"])
def test_types_and_shapes_without_elements_or_axes(trio, dtype):
    owner, other, _ = trio.communicators
    for shape in ((), (0,), (3, 0), (7,)):
        array = np.ones(shape, np.dtype(dtype))
        name = f"types/{dtype}/{len(shape)}/{array.size}"
        owner.register(name, array)
        got = other.get(name, 0).array
        assert got.dtype == array.dtype
        assert np.array_equal(got, array)
        assert other.put(name, 0, np.zeros(shape, array.dtype)) == 1
        assert not other.get(name, 0).array.any()


def test_puts_are_atomic_and_no_sum_is_lost():
    puts, elements = 25, 4000
    lossy = random.Random(3)

    def lose(datagram: bytes) -> list[bytes]:
        return [] if lossy.random() < 0.02 else [datagram]

    taps = {("h0", "s0"): lose, ("h2", "s0"): lose}
    with Cluster(load_topology("star:4"), tamper=taps) as cluster:
        total = cluster.communicators[0].register("total", np.zeros(elements, np.int64))

        def program(comm):
            mine = np.full(elements, comm.rank + 1)
            versions = []
            for _ in range(puts):
                comm.put("total", 0, mine, combine="sum")
                array, version = comm.get("total", 0)
                assert len(np.unique(array)) == 1, "a get saw a part of a put"
                versions.append(version)
            return versions

        for versions in cluster.run(program):
            assert not isinstance(versions, Exception), versions
            assert versions == sorted(set(versions)), "a get was older than the rank's own put"
        with total.reading() as memory:
            assert set(memory) == {puts * (1 + 2 + 3 + 4)}
        assert total.version == 4 * puts


def test_many_requests_run_concurrently(trio):
    owner, other, _ = trio.communicators
    owner.register("many", np.zeros(3000, np.float32))
    ones = np.ones(3000, np.float32)
    works = [other.iput("many", 0, ones, combine="sum") for _ in range(20)]
    gets = [other.iget("many", 0) for _ in range(20)]
    assert sorted(work.wait() for work in works) == list(range(1, 21))
    for get in gets:
        array, version = get.wait()
        assert set(array) == {float(version)}

    async def last() -> float:
        return float((await other.iget("many", 0)).array[0])

    assert asyncio.run(last()) == 20.0


def test_old_versions_and_requests_are_dropped(trio):
    owner, other, _ = trio.communicators
    owner.register("kept", np.zeros(100_000, np.uint8))
    for _ in range(5):
        other.put("kept", 0, np.ones(100_000, np.uint8))
        other.get("kept", 0)
    retained = [trio.status(host)["endpoint"]["retained_bytes"] for host in ("h0", "h1")]
    for _ in range(100):
        other.put("kept", 0, np.ones(100_000, np.uint8))
        other.get("kept", 0)
    for host, before in zip(("h0", "h1"), retained, strict=True):
        now = trio.status(host)["endpoint"]["retained_bytes"]
        # A snapshot on either side of its release, and the replies that are kept.
        assert now < before + 400_000


def test_a_version_that_many_ranks_get_crosses_the_owners_link_about_once():
    elements = 200_000
    with Cluster(load_topology("star:5"), segment_bytes=8192) as cluster:
        cluster.communicators[0].register("parameters", np.ones(elements, np.float32))
        results = cluster.run(
            lambda comm: None if comm.rank == 0 else comm.get("parameters", 0).array.sum()
        )
        assert results[1:] == [elements] * 4
        sent = cluster.status("h0")["links"][0]["bytes_out"]
        assert sent < 2 * 4 * elements, "each rank's copy came from the owner"


def test_a_get_can_return_a_version_that_was_fetched_before(trio):
    owner, other, third = trio.communicators
    registered = owner.register("slack", np.zeros(10, np.float32))
    assert other.get("slack", 0).version == 0
    for _ in range(3):
        with registered.writing() as memory:
            memory += 1
    assert third.get("slack", 0, behind=3).version == 0
    assert third.get("slack", 0, behind=3, at_least=2).version == 3
    assert third.get("slack", 0, behind=2).version == 3


def test_a_get_waits_for_its_array_and_for_its_version(trio):
    owner, other, _ = trio.communicators
    early = other.iget("late", 0, at_least=1)
    registered = owner.register("late", np.zeros(10, np.float32))
    assert not early.done()
    with registered.writing() as memory:
        memory[:] = 7
    array, version = early.wait()
    assert version == 1
    assert set(array) == {7.0}


def test_deadlines_name_the_rank_and_the_array(trio):
    owner, other, _ = trio.communicators
    owner.register("here", np.zeros(3))
    with pytest.raises(DeadlineExceeded, match=r"get\('gone', source=0\): rank 0 has no array"):
        other.get("gone", 0, timeout_s=0.2)
    with pytest.raises(DeadlineExceeded, match=r"'here' of rank 0 is at version 0, and version 5"):
        other.get("here", 0, at_least=5, timeout_s=0.2)
    with pytest.raises(DeadlineExceeded, match=r"put\('gone', to=0.*rank 0 has no array 'gone'"):
        other.put("gone", 0, np.zeros(3), timeout_s=0.2)
    # Rank 2 has registered nothing, so it does not even listen.
    with pytest.raises(
        DeadlineExceeded, match=r"get\('x', source=2\): rank 2 \(h2\) had not sent its data"
    ):
        other.get("x", 2, timeout_s=0.2)


def test_requests_that_do_not_fit_are_refused_and_change_nothing(trio):
    owner, other, _ = trio.communicators
    registered = owner.register("small", np.full(4, 250, np.uint8))
    with pytest.raises(MismatchError, match=r"float64.*'small', which is of uint8"):
        other.put("small", 0, np.zeros(4))
    with pytest.raises(
        MismatchError, match=r"\(5,\), into 'small', which is of uint8, shape \(4,\)"
    ):
        other.put("small", 0, np.zeros(5, np.uint8))
    with pytest.raises(MismatchError, match="shape"):
        other.put("small", 0, np.zeros(3, np.uint8), rows=slice(2, 5))
    with pytest.raises(ReductionOverflow, match="leaves the range of uint8"):
        other.put("small", 0, np.full(4, 6, np.uint8), combine="sum")
    with pytest.raises(MismatchError, match="out="):
        other.get("small", 0, out=np.zeros(4))
    with pytest.raises(CollectiveError, match="no rows 2 to 9"):
        other.get("small", 0, rows=slice(2, 9))
    with pytest.raises(CollectiveError, match="both ends"):
        other.get("small", 0, rows=slice(2, None))
    with pytest.raises(CollectiveError, match="rows=3 must be a range"):
        other.get("small", 0, rows=3)
    with pytest.raises(CollectiveError, match="has an array 'small' already"):
        owner.register("small", np.zeros(3))
    with pytest.raises(CollectiveError, match="there is no rank 9"):
        other.get("small", 9)
    with pytest.raises(CollectiveError, match="shorter name"):
        other.get("x" * 900, 0)
    assert registered.version == 0
    assert set(other.get("small", 0).array) == {250}


@pytest.mark.parametrize("place", ["memory for what comes", "the write"])
def test_a_put_that_fails_at_the_owner_raises_its_cause(trio, monkeypatch, place):
    """The owner serves the next request all the same."""
    owner, asker, _ = trio.communicators
    memory = np.zeros(4, np.float32)
    name = f"fails at its owner: {place}"
    owner.register(name, memory)

    def fail(*_):
        raise MemoryError("no room for 4 elements")

    with monkeypatch.context() as patched:
        if place == "the write":
            patched.setattr(RegisteredArray, "write", fail)
        else:
            patched.setattr(array_server, "np", SimpleNamespace(empty=fail))
        with pytest.raises(CollectiveError, match="MemoryError: no room for 4 elements") as caught:
            asker.put(name, 0, np.ones(4, np.float32))
    assert f"rank 0 could not write '{name}'" in str(caught.value)
    asker.put(name, 0, np.full(4, 2, np.float32))
    assert memory.tolist() == [2, 2, 2, 2]


def test_a_put_of_rows_into_an_array_without_rows_is_refused_at_once(trio):
    owner, other, _ = trio.communicators
    owner.register("scalar", np.zeros(()))
    with pytest.raises(MismatchError, match=r"rows 0 to 1 of 'scalar', .* shape \(\)"):
        other.put("scalar", 0, np.zeros(1), rows=slice(0, 1))


def test_gets_have_the_current_timeout_of_the_communicator():
    with Cluster(load_topology("star:2")) as cluster:
        comm = cluster.communicators[0]
        comm.timeout_s = 0.2
        with pytest.raises(DeadlineExceeded, match="never"):
            comm.iget("never", 1).wait(10)


def test_a_cancelled_request_raises_cancelled(trio):
    owner, other, _ = trio.communicators
    owner.register("waiting", np.zeros(3))
    work = other.iget("waiting", 0, at_least=1)
    work.cancel()
    with pytest.raises(Cancelled, match="waiting"):
        work.wait()


class _DeliversAtOnce:
    """Delivers the first completion before ``deliver`` returns, and the second when cancelled.

    Between two threads, the first happens now and then.
    """

    def __init__(self, collector: CompletionSource) -> None:
        self._collector = collector
        self._is_first = True
        self._held: dict[int, Callback] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._collector, name)

    def deliver(self, operation: int, callback: Callback) -> None:
        if self._is_first:
            self._is_first = False
            ended = self._collector.wait(operation, 60)
            assert ended is not None
            callback(*ended)
        else:
            self._held[operation] = callback

    def cancel(self, operation: int) -> None:
        if operation in self._held:
            self._held.pop(operation)(_core.STATUS_CANCELLED, "given up")


def test_a_get_cancelled_during_its_fetch_raises_cancelled():
    with Cluster(load_topology("star:2")) as cluster:
        owner, other = cluster.communicators
        owner.register("weights", np.zeros(3))
        transfers = other._array_transfers
        transfers._collector = _DeliversAtOnce(transfers._collector)
        work = other.iget("weights", 0)
        work.cancel()
        with pytest.raises(Cancelled, match="weights"):
            work.wait(20)


def test_a_failed_rank_is_named_together_with_the_array():
    with Cluster(load_topology("star:2")) as cluster:
        comm = cluster.communicators[0]
        work = comm.iget("never", 1)
        waiting = threading.Thread(target=work.exception)
        waiting.start()
        cluster.fail(comm, "rank 1 (h1) was killed", 1)
        with pytest.raises(RankFailed, match=r"get\('never', source=1\): rank 1 \(h1\) was kille"):
            work.wait()
        waiting.join()


def test_groups_have_arrays_of_their_own_and_fail_apart():
    with Cluster(load_topology("star:3")) as cluster:
        everybody = cluster.communicators
        pair = cluster.group("pair", ["h2", "h0"], "inc")
        first, second = pair
        first.register("same", np.full(500, 2.0))
        everybody[0].register("same", np.full(300, 7.0))
        assert set(second.get("same", 0).array) == {2.0}
        assert set(everybody[1].get("same", 0).array) == {7.0}
        waiting = second.iget("same", 0, at_least=1)
        cluster.fail(second, "rank 0 (h2) was killed", 0)
        with pytest.raises(RankFailed, match=r"get\('same', source=0\): rank 0 \(h2\)"):
            waiting.wait()
        assert everybody[1].put("same", 0, np.zeros(300)) == 1
        for communicator in pair:
            communicator.close()


def test_a_writing_block_that_raises_still_publishes_a_version(trio):
    owner, other, _ = trio.communicators
    registered = owner.register("raises", np.zeros(10))
    assert other.get("raises", 0).version == 0

    def half_written() -> None:
        with registered.writing() as memory:
            memory[:5] = 1
            raise ValueError("half way")

    with pytest.raises(ValueError, match="half way"):
        half_written()
    array, version = other.get("raises", 0)
    assert (version, array.sum()) == (1, 5)


@pytest.mark.parametrize(
    ("dtype", "shape"), [("object", (4,)), ("O,i8", (4,)), ("nonsense", (4,)), ("float32", (-1,))]
)
def test_an_owners_description_of_an_array_is_checked_before_allocation(dtype, shape):
    said = {"kind": "located", "version": 1, "slot": 0, "dtype": dtype, "shape": shape}
    with pytest.raises(ValidationError, match="located"):
        decode_reply(np.frombuffer(json.dumps(said).encode(), np.uint8))
    said |= {"dtype": "bfloat16", "shape": (4,)}
    located = decode_reply(np.frombuffer(json.dumps(said).encode(), np.uint8))
    assert isinstance(located, Located)
    assert located.dtype == "bfloat16"
