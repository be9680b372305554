"""Who may not sign something changes nothing: a wrong key, a right key's wrong name, an old key.

A host that is in the group attacks, by packets of its own in front of its true ones. The switch's
counters show that they were caught, and the results that they changed nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from innet.collectives import Communicator
from innet.security import node_certificate_name
from innet.security.keys import Key
from innet.security.trust import Policy, PrivateKey
from innet.topology import load_topology
from tests.attacks.crafted_data import Wire, data_name, signed_by_key
from tests.collectives.cluster import Cluster

ELEMENTS = 600  # three segments
REFUSALS = ("invalid_signature", "unknown_key", "key_out_of_scope", "key_expired")
LATE_S = 10.0
"""Less than the timeout of a sum."""
OLD = PrivateKey.generate()
"""A key that h1 had, until its certificate expired."""


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def cluster(wire: Wire) -> Iterator[Cluster]:
    """Three hosts on a switch, under the shipped policy; ``wire`` is the link of h1."""
    old = Key(
        signature="ed25519",
        name="/n/h1/OLD",
        secret=OLD.public.raw_ed25519().hex(),  # type: ignore[union-attr]
        not_after=time.time() - 1,
    )
    with Cluster(
        load_topology("star:3"),
        tamper={("h1", "s0"): wire},
        signature="ed25519",
        policy=Policy.load("job"),
        trusted=[old],
    ) as made:
        yield made


def signed_as(node: str, key: PrivateKey) -> Callable[[bytes, str], bytes]:
    """Forges by ``key``, which is said to be that of ``node``."""
    signer = node_certificate_name(node, "j")
    return lambda datagram, name: signed_by_key(datagram, name, signer, key)


def poll(condition: Callable[[], bool]) -> None:
    """Returns once the condition holds, or ``LATE_S`` have passed."""
    patience = time.monotonic() + LATE_S
    while not condition() and time.monotonic() < patience:
        time.sleep(0.01)


def attack(
    cluster: Cluster,
    wire: Wire,
    forged: Callable[[bytes, str], bytes],
    late: int | None = None,
    when_requested: bool = False,
) -> dict[str, int]:
    """Sums while h1 sends ``forged`` before each of its contributions; what the switch counted.

    Rank ``late`` begins once the switch has refused one, and so waits for its contribution till
    then. If the switch refuses none, it begins nevertheless, and the sum shows what that did.

    Args:
        when_requested: h1 begins once rank 0 has requested the sum of the switch.
    """

    def refused() -> dict[str, int]:
        counted = cluster.status("s0")["node"]
        return {counter: counted[counter] - before[counter] for counter in REFUSALS}

    def is_requested() -> bool:
        return bool(cluster.status("s0")["reducer"]["slots_in_use"])

    def change(datagram: bytes) -> list[bytes]:
        name = data_name(datagram)
        if not name.startswith("/j/g0/1/"):
            return [datagram]
        return [forged(datagram, name), datagram]

    def program(communicator: Communicator) -> np.ndarray:
        if communicator.rank == 1 and when_requested:
            poll(is_requested)
        if communicator.rank == late:
            poll(lambda: any(refused().values()))
        return communicator.allreduce(np.full(ELEMENTS, communicator.rank + 1, np.float32))

    wire.change = change
    before = cluster.status("s0")["node"]
    results = cluster.run(program)
    assert wire.changed >= 3
    assert [list(np.unique(result)) for result in results] == [[6.0]] * 3
    return refused()


def test_without_an_attack_nothing_is_refused(cluster, wire):
    results = cluster.run(lambda c: c.allreduce(np.full(ELEMENTS, c.rank + 1, np.float32)))
    assert [list(np.unique(result)) for result in results] == [[6.0]] * 3
    objects = cluster.run(
        lambda c: c.publish("o", b"x" * 3000) if c.rank == 1 else bytes(c.fetch("o", source=1))
    )
    assert objects[0] == objects[2] == b"x" * 3000
    for node in cluster.nodes:
        counted = cluster.status(node)["node"]
        assert counted["key_out_of_scope"] == counted["unknown_key"] == 0
        assert counted["invalid_signature"] == counted["key_expired"] == 0


@pytest.mark.parametrize("victim", ["0", "2", "0-2"], ids=["rank 0", "rank 2", "the sum"])
def test_a_ranks_key_signs_neither_contributions_of_others_nor_sums(cluster, wire, victim):
    key = cluster.key_of("h1")
    caught = attack(
        cluster,
        wire,
        lambda datagram, name: signed_by_key(
            datagram,
            name.replace("/j/g0/1/", f"/j/g0/{victim}/"),
            node_certificate_name("h1", "j"),
            key,
        ),
        late=0 if victim == "0" else 2,
        # The switch drops a sum that nobody has requested, before it looks at the signature.
        when_requested=victim == "0-2",
    )
    assert caught["key_out_of_scope"] > 0
    assert caught["invalid_signature"] == caught["unknown_key"] == caught["key_expired"] == 0


def test_another_key_with_the_name_of_a_valid_one_is_refused(cluster, wire):
    stranger = PrivateKey.generate()
    caught = attack(
        cluster,
        wire,
        signed_as("h1", stranger),
    )
    assert caught["invalid_signature"] >= 3


def test_an_unknown_key_is_refused(cluster, wire):
    stranger = PrivateKey.generate()
    caught = attack(
        cluster,
        wire,
        signed_as("h9", stranger),
    )
    assert caught["unknown_key"] >= 3


def test_a_key_with_an_expired_certificate_is_refused(cluster, wire):
    caught = attack(
        cluster,
        wire,
        lambda datagram, name: signed_by_key(datagram, name, "/n/h1/OLD", OLD),
    )
    assert caught["key_expired"] >= 3


@pytest.mark.parametrize("signature", ["gmac", "digest"])
def test_no_other_node_can_answer_for_a_rank_before_it_publishes(
    run_job: Any, signature: str
) -> None:
    result = run_job(
        "poisoned_by_a_program.py",
        topology="star:2",
        settings=[f"security.signature={signature}"],
    )
    assert result.failure == ""
    assert "dropped 3" in result.said("h0")
