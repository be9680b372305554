"""Objects: published once, signed once, fetched by anybody, verified by everybody."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Sequence

import numpy as np
import pytest

from innet._native import _core
from innet.errors import (
    CollectiveError,
    DeadlineExceeded,
    MismatchError,
    RankFailed,
    SecurityError,
    TransportError,
)
from innet.security import node_certificate_name
from innet.topology import load_topology
from tests.collectives.cluster import Cluster, Tamper

MEBIBYTE = 1 << 20


def some_bytes(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


def publish_as(cluster: Cluster, rank: int, name: str, key: _core.SigningKey) -> None:
    """Publish ``name`` of ``rank``, signed with a key that need not be its own."""
    node = cluster.members[rank].node
    contents = np.zeros(3000, np.uint8)
    operation = node.publish_object(_core.Name(f"/j/g0/obj/{rank}/{name}"), contents, key, 1100)
    assert node.wait(operation, 10.0) == (_core.STATUS_DONE, "")


@pytest.fixture(scope="module")
def trio():
    with Cluster(load_topology("star:3")) as cluster:
        yield cluster


def test_a_buffer_holds_one_object(trio):
    publish_as(trio, 1, "once", trio.members[1].object_key)
    node, buffer = trio.members[0].node, _core.ObjectBuffer()
    fetch = (_core.Name("/j/g0/obj/1/once"), _core.Name("/n/h1"), _core.Name("/n/h1"), buffer, 5.0)
    node.fetch_object(*fetch)
    with pytest.raises(ValueError, match="another object's"):
        node.fetch_object(*fetch)


def test_all_ranks_fetch_at_once_and_the_publisher_sends_about_once():
    contents = some_bytes(5 * MEBIBYTE)
    topology = load_topology("star:5")
    with Cluster(topology, segment_bytes=8192, timeout_s=60.0) as cluster:
        cluster.communicators[0].publish("model", contents)

        def fetch(comm):
            return None if comm.rank == 0 else comm.fetch("model", source=0).tobytes()

        results = cluster.run(fetch)
        assert results[1:] == [contents] * 4
        packets = len(contents) / 8000
        sent = cluster.status("h0")["links"][0]["data_out"]
        assert sent < 1.5 * packets, "each rank's copy came from the publisher"

        # The switch holds all of it by now, verified; the publisher is not asked again.
        assert cluster.communicators[3].fetch("model", source=0).tobytes() == contents
        assert cluster.status("h0")["links"][0]["data_out"] == sent


def flip(share: float, seed: int, flipped: list[int]) -> Tamper:
    source = random.Random(seed)

    def tamper(datagram: bytes) -> Sequence[bytes]:
        if datagram[:1] != b"\x06" or source.random() > share:
            return [datagram]
        damaged = bytearray(datagram)
        damaged[source.randrange(len(damaged))] ^= 1 << source.randrange(8)
        flipped.append(1)
        return [bytes(damaged)]

    return tamper


@pytest.mark.parametrize("signature", ["gmac", "digest"])
def test_flipped_bits_on_the_wire_recover(signature):
    print("seed", 11)
    flipped: list[int] = []
    contents = some_bytes(300_000)
    taps = {("h0", "s0"): flip(0.2, 11, flipped), ("h2", "s0"): flip(0.2, 12, flipped)}
    with Cluster(load_topology("star:3"), tamper=taps, signature=signature) as cluster:
        cluster.communicators[0].publish("model", contents)
        results = cluster.run(lambda comm: comm.fetch("model", source=0).tobytes())
    assert results == [contents] * 3
    assert len(flipped) > 50


def test_another_ranks_key_is_refused_with_an_error_that_names_it(trio):
    publish_as(trio, 1, "stolen", trio.members[2].object_key)
    with pytest.raises(
        SecurityError,
        match=r"'stolen'.*signed by /n/h1/KEY/\S+ came, but \d+ of other .*the last by /n/h2/KEY/",
    ):
        trio.communicators[0].fetch("stolen", source=1, timeout_s=0.5)


def test_a_strangers_signature_reaches_nobody(trio):
    stranger = _core.SigningKey(
        "ed25519", node_certificate_name("h1", "j"), secrets.token_bytes(32)
    )
    publish_as(trio, 1, "forged", stranger)
    before = trio.status("s0")["node"]["invalid_signature"]
    with pytest.raises(DeadlineExceeded, match=r"no manifest of \S+/forged signed by /n/h1/KEY"):
        trio.communicators[0].fetch("forged", source=1, timeout_s=0.5)
    assert trio.status("s0")["node"]["invalid_signature"] > before


def test_fetching_an_unpublished_object_ends_at_the_deadline(trio):
    with pytest.raises(DeadlineExceeded, match=r"fetch\('nothing'.*rank 2 \(h2\) had not sent"):
        trio.communicators[0].fetch("nothing", source=2, timeout_s=0.5)


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1025, 40_000])
def test_objects_of_sizes_near_a_segment(trio, size):
    contents = some_bytes(size, seed=size)
    name = f"sizes/{size}"
    trio.communicators[1].publish(name, contents)
    for result in trio.run(lambda comm: comm.fetch(name, source=1)):
        assert isinstance(result, np.ndarray), result
        assert result.tobytes() == contents


def test_a_fetch_can_start_before_the_publication(trio):
    early, publisher = trio.communicators[0], trio.communicators[1]
    work = early.ifetch("late", source=1)
    other = early.ifetch("late", source=1)
    assert not work.done()
    publisher.publish("late", some_bytes(10_000))
    assert work.wait().tobytes() == some_bytes(10_000)

    async def result() -> bytes:
        contents: bytes = (await other).tobytes()
        return contents

    assert asyncio.run(result()) == some_bytes(10_000)


def test_arrays_keep_their_elements_and_are_written_to_out(trio):
    weights = np.arange(6000, dtype=np.float32).reshape(60, 100)
    trio.communicators[0].publish("weights", weights.T)
    weights_t = weights.T.copy()
    fetcher = trio.communicators[2]
    assert np.array_equal(fetcher.fetch("weights", 0).view(np.float32), weights_t.reshape(-1))
    out = np.zeros((100, 60), np.float32)
    assert fetcher.fetch("weights", 0, out) is out
    assert np.array_equal(out, weights_t)
    strided = np.zeros((100, 120), np.float32)[:, ::2]
    assert np.array_equal(fetcher.fetch("weights", 0, strided), weights_t)
    with pytest.raises(MismatchError, match="has 24000 bytes, and the memory for it 23996"):
        fetcher.fetch("weights", 0, np.zeros(5999, np.float32))


def test_data_can_change_after_publish(trio):
    data = bytearray(some_bytes(5000))
    trio.communicators[0].publish("changing", data)
    data[:] = bytes(5000)
    assert trio.communicators[1].fetch("changing", 0).tobytes() == some_bytes(5000)


def test_a_name_is_published_once_and_reusable_after_withdrawal(trio):
    comm = trio.communicators[0]
    comm.publish("once", b"first")
    with pytest.raises(TransportError, match="published already"):
        comm.publish("once", b"second")
    comm.withdraw("once")
    with pytest.raises(DeadlineExceeded, match=r"rank 0 \(h0\) had not sent its data"):
        trio.communicators[1].fetch("once", 0, timeout_s=0.3)
    comm.publish("once", b"third")
    assert trio.communicators[1].fetch("once", 0).tobytes() == b"third"


def test_names_are_paths_and_any_text_is_a_component(trio):
    comm = trio.communicators[0]
    odd = "seg=1/32=manifest/ä b%/..x"
    comm.publish(odd, b"odd")
    assert trio.communicators[1].fetch(odd, 0).tobytes() == b"odd"
    for wrong in ("", "/", "a//b", "a/", "..", "a/."):
        with pytest.raises(CollectiveError, match="names nothing"):
            comm.publish(wrong, b"")
    with pytest.raises(TransportError, match="too long"):
        comm.publish("x" * 1200, b"")
    with pytest.raises(CollectiveError, match="there is no rank 3"):
        comm.fetch("model", source=3)


def test_a_failed_rank_ends_fetches_with_its_name():
    with Cluster(load_topology("star:2")) as cluster:
        work = cluster.communicators[0].ifetch("never", source=1)
        cluster.fail(cluster.communicators[0], "rank 1 (h1) was killed", 1)
        with pytest.raises(RankFailed, match=r"rank 1 \(h1\) was killed"):
            work.wait()
