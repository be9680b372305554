"""Loss, disorder, duplicates and forgery between two nodes: right bits, always."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from innet.plans import evaluate_allreduce, make_plan
from innet.topology import load_topology
from tests.collectives.cluster import Cluster, Tamper

ELEMENTS = 12_000
SEGMENT_ELEMENTS = 1024 // 4


def contributions(ranks: int, elements: int) -> list[np.ndarray]:
    return [
        np.random.default_rng(rank).standard_normal(elements).astype(np.float32)
        for rank in range(ranks)
    ]


def assert_exact(cluster: Cluster, rounds: int = 3, elements: int = ELEMENTS) -> None:
    """Several allreduces give the bits of the plan's expression on every rank."""
    arrays = contributions(len(cluster.communicators), elements)
    expected = evaluate_allreduce(cluster.plan, arrays, "sum", SEGMENT_ELEMENTS)
    for _ in range(rounds):
        results = cluster.run(lambda comm: comm.allreduce(arrays[comm.rank]))
        for rank, result in enumerate(results):
            assert isinstance(result, np.ndarray), f"rank {rank}: {result!r}"
            assert result.tobytes() == expected.tobytes(), f"rank {rank} holds other bits"


def disorder(seed: int) -> Tamper:
    """Loses 5 %, repeats 5 % (some of it much later), and swaps neighbours."""
    source = random.Random(seed)
    kept: list[bytes] = []

    def tamper(datagram: bytes) -> Sequence[bytes]:
        draw = source.random()
        if draw < 0.05:
            return []
        if draw < 0.10:
            kept.append(datagram)
            return [datagram, datagram]
        if draw < 0.30:
            kept.append(datagram)
            return [] if len(kept) % 2 else [kept.pop(), kept.pop(0)]
        return [datagram]

    return tamper


def is_data(datagram: bytes) -> bool:
    return datagram[:1] == b"\x06"


@pytest.mark.parametrize("algorithm", ["inc", "ps", "ring", "halving-doubling"])
def test_results_survive_loss_reordering_and_duplicates(algorithm):
    seed = 7
    print("seed", seed)
    taps = {(f"h{rank}", "s0"): disorder(seed + rank) for rank in range(4)}
    with Cluster(load_topology("star:4"), algorithm, tamper=taps) as cluster:
        assert_exact(cluster, rounds=2, elements=ELEMENTS // 3)


def test_flipped_bits_never_enter_a_sum():
    source = random.Random(3)
    print("seed", 3)
    flipped = []

    def flip(datagram: bytes) -> Sequence[bytes]:
        if not is_data(datagram) or source.random() > 0.2:
            return [datagram]
        damaged = bytearray(datagram)
        damaged[source.randrange(40, len(damaged))] ^= 1 << source.randrange(8)
        flipped.append(1)
        return [bytes(damaged)]

    with Cluster(load_topology("star:3"), tamper={("h1", "s0"): flip}) as cluster:
        assert_exact(cluster)
        caught = sum(
            cluster.status(node)["node"]["invalid_signature"]
            + cluster.status(node)["node"]["malformed"]
            + cluster.status(node)["node"]["unsolicited_data"]
            + cluster.status(node)["node"]["unknown_key"]
            for node in cluster.nodes
        )
    assert len(flipped) > 10
    assert caught >= len(flipped) * 0.9, "damaged packets were taken"


@pytest.mark.parametrize("signature", ["hmac", "ed25519"])
def test_other_signature_types_protect_as_well(signature):
    source = random.Random(5)

    def flip_content(datagram: bytes) -> Sequence[bytes]:
        if not is_data(datagram) or len(datagram) < 900 or source.random() > 0.1:
            return [datagram]
        damaged = bytearray(datagram)
        damaged[500] ^= 0x40
        return [bytes(damaged)]

    topology = load_topology("star:3")
    with Cluster(topology, signature=signature, tamper={("h0", "s0"): flip_content}) as cluster:
        assert_exact(cluster, rounds=1)
        assert sum(cluster.status(n)["node"]["invalid_signature"] for n in cluster.nodes) > 0


def test_forged_data_of_a_stranger_is_dropped():
    """Whoever can inject packets but lacks the group key cannot change a sum."""
    forged = []

    def forge(datagram: bytes) -> Sequence[bytes]:
        if not is_data(datagram) or len(datagram) < 900:
            return [datagram]
        lie = bytearray(datagram)
        lie[300:600] = bytes(300)  # other content under the same name, then the true packet
        forged.append(1)
        return [bytes(lie), datagram]

    with Cluster(load_topology("star:3"), tamper={("h2", "s0"): forge}) as cluster:
        assert_exact(cluster)
        assert cluster.status("s0")["node"]["invalid_signature"] > 0
    assert forged


@pytest.mark.parametrize("slots", [0, 1, 4])
@pytest.mark.parametrize("shape", ["star:4", "leaf-spine:2x2x2"])
def test_few_slots_change_no_result(slots, shape):
    topology = load_topology(shape)
    plan = make_plan("inc", topology)  # made as if there were slots: the switches then refuse
    scarce = topology.with_overrides(slots=slots)
    with Cluster(scarce, plan) as cluster:
        assert_exact(cluster)
        fallbacks = sum(
            cluster.status(node)["reducer"]["refused_no_slot"] for node in topology.switches
        )
        assert fallbacks > 0, "the test needs refusals to mean something"
