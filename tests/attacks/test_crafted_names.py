"""Names and lifetimes that are chosen to cost a node much, or to answer for others."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from innet._native import _core
from innet.errors import SecurityError
from innet.observe.packets.layers import data, implicit_digest, interest
from innet.security.trust.signed_data import parse_data
from tests.attacks.outsider import NodeAmongStrangers

_PIT_CAPACITY = 512
_FOREIGN = _PIT_CAPACITY // 4
"""What the faces of programs may have pending together."""
_FOR_EVER_MS = 10**12
_LONGEST_MS = 2**64 - 1
_ASKED = 400


def some_cache(settings: Any) -> None:
    settings.cache_bytes = 300_000


def small_pit(settings: Any) -> None:
    settings.pit_capacity = _PIT_CAPACITY


def test_data_with_a_claimed_digest_satisfy_no_interest() -> None:
    with NodeAmongStrangers(2, some_cache) as node:
        client, producer = node.neighbours
        node.node.add_route("/videos", 1)
        right = data("/videos/a", b"right")
        full_name = f"/videos/a/sha256digest={implicit_digest(right).hex()}"
        client.send(interest(full_name, nonce=1))
        producer.receive("interest")
        producer.send(data(full_name, b"poison"), data(full_name + "/seg=0", b"poison"))
        assert node.counted("malformed", producer) == 2
        assert [o for o in client.heard() if o.kind == "data"] == []
        producer.send(right)
        assert client.receive("data")[1] == bytes(right)
        client.send(interest(full_name, nonce=2))
        assert client.receive("data")[1] == bytes(right)


def test_a_validator_refuses_data_with_a_claimed_digest() -> None:
    forged = bytes(data("/videos/a/sha256digest=" + "01" * 32, b"poison"))
    with pytest.raises(SecurityError, match="implicit digest"):
        parse_data(forged)


def test_a_requester_of_missing_data_uses_only_its_share_of_the_pit() -> None:
    with NodeAmongStrangers(0, small_pit) as node:
        node.node.register_producer("/job/g0/3", "3")
        attacker, other = node.add_programs(2)
        lifetimes = itertools.cycle((_FOR_EVER_MS, _LONGEST_MS))
        for first in range(0, _ASKED, 50):
            attacker.send(
                *(
                    interest(f"/job/g0/3/sum.f32/seq={n}/seg=0", nonce=n + 1, lifetime_ms=lifetime)
                    for n, lifetime in zip(range(first, first + 50), lifetimes, strict=False)
                ),
            )
            # Of a face that sends so much in vain, the node leaves some unread.
            over_share = node.counted("over_share", attacker)
        assert over_share > 0
        assert node.counter("pit_entries") <= _FOREIGN
        # Somebody else may still wait.
        pending = node.counter("pit_entries")
        other.send(interest(f"/job/g0/3/sum.f32/seq={_ASKED}/seg=0", nonce=7))
        assert node.counted("pit_entries", other) == pending + 1


def test_names_with_related_components_have_different_hashes() -> None:
    one, other = bytes.fromhex("08060102"), bytes.fromhex("010208040806")
    generic = 8
    hashes = set()
    for chosen in itertools.product((one, other), repeat=10):
        name = _core.Name("/")
        for value in chosen:
            name = name.append(generic, value)
        hashes.add(hash(name))
    assert len(hashes) == 2**10
