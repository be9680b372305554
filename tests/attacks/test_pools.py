"""Poisoned blocks of a pool: caught in the first switch that knows the tenant, and counted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from innet.kv.tenant import Tenant
from innet.observe.packets.layers import interest
from innet.security.trust import PrivateKey, parse_data, sign_data
from innet.security.trust.names import name_of
from tests.attacks.outsider import Neighbour, NodeAmongStrangers

TENANT = Tenant("acme", b"a secret that nobody on the way has")
BLOCK = f"{TENANT.prefix}/00ff/raw/0-1/abcd/seg=0"
HINT = "/n/s1"


def signed(key: PrivateKey, key_name: str, content: bytes) -> bytes:
    """The block, signed so."""
    return sign_data(name_of(BLOCK), content, key, name_of(key_name)).wire


TRUE = signed(
    PrivateKey.from_raw_ed25519(bytes.fromhex(TENANT.key.secret)), TENANT.key_name, b"true"
)
POISON = {
    "invalid_signature": signed(PrivateKey.generate(), TENANT.key_name, b"poison"),
    "unknown_key": signed(PrivateKey.generate(), "/kv/other/KEY", b"poison"),
}


@pytest.fixture
def switch() -> Iterator[NodeAmongStrangers]:
    """A switch between a member of a pool, face 0, and another switch, face 1."""
    with NodeAmongStrangers(2, lambda settings: setattr(settings, "cache_bytes", 1 << 20)) as made:
        made.node.add_route(HINT, 1)
        made.node.install_job(TENANT.prefix, 1, None, [TENANT.public_key.native()])
        made.node.bind_face(0, None)
        made.node.admit_face(0, TENANT.prefix)
        yield made


def content_at(member: Neighbour) -> bytes:
    """What the member gets."""
    return parse_data(member.receive("data")[1]).content


@pytest.mark.parametrize("counter", POISON)
def test_a_poisoned_block_is_dropped_by_the_first_switch(
    switch: NodeAmongStrangers, counter: str
) -> None:
    member, far = switch.neighbours
    member.send(interest(BLOCK, hints=[HINT]))
    far.receive("interest")
    far.send(POISON[counter])
    assert switch.counted(counter, far) == 1
    assert (member.heard(), switch.counter("cache_entries")) == ([], 0)
    far.send(TRUE)  # who waited goes on waiting
    assert content_at(member) == b"true"
    member.send(interest(BLOCK, hints=[HINT], nonce=77))
    assert content_at(member) == b"true"
    assert switch.counter("cache_hits") == 1


def test_programs_can_neither_serve_nor_fetch_blocks_of_a_pool(switch: NodeAmongStrangers) -> None:
    member, far = switch.neighbours
    (program,) = switch.add_programs(1)
    member.send(interest(BLOCK, hints=[HINT]))
    far.receive("interest")
    program.send(POISON["unknown_key"], TRUE, interest(BLOCK))
    program.receive("nack")
    assert switch.counter("forbidden_answers") == 2
    assert switch.counter("forbidden_interests") == 1
    assert (member.heard(), switch.counter("cache_entries")) == ([], 0)


def test_data_cached_before_the_pool_existed_are_dropped(switch: NodeAmongStrangers) -> None:
    member, far = switch.neighbours
    switch.node.remove_job(TENANT.prefix)
    consumer, producer = switch.add_programs(2)
    producer.send(interest("/hello"))  # a face comes with its first packet
    producer.receive("nack")
    switch.node.add_route(TENANT.prefix, 2)
    consumer.send(interest(BLOCK))
    producer.receive("interest")
    producer.send(POISON["unknown_key"])
    assert content_at(consumer) == b"poison"
    assert switch.counter("cache_entries") == 1
    switch.node.install_job(TENANT.prefix, 1, None, [TENANT.public_key.native()])
    switch.node.admit_face(0, TENANT.prefix)
    assert switch.counter("cache_entries") == 0
    member.send(interest(BLOCK, hints=[HINT], nonce=78))
    far.receive("interest")
    far.send(TRUE)
    assert content_at(member) == b"true"
