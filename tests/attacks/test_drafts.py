"""Root manifests of a pool that nobody has signed yet: they are worth nothing but to members."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from innet._native import _core
from innet.kv.tenant import Tenant
from innet.observe.packets.layers import interest
from innet.observe.packets.outline import Outline
from innet.security.trust import tlv
from innet.tlv_numbers import TlvType
from tests.attacks.outsider import Neighbour, NodeAmongStrangers

TENANT = Tenant("acme", b"a secret that nobody on the way has")
STRANGER = Tenant("acme", b"the secret of somebody else")
BLOCK = f"{TENANT.prefix}/00ff/raw/0-1/abcd"
ROOT = f"{BLOCK}/32=manifest/seg=0"
CONTENTS = np.arange(5000, dtype=np.uint8)
PACKET_BYTES = 1400
SEGMENTS = 4
TIMEOUT_S = 20.0
ZEROS = bytes(64)


def join(node: _core.Node, tenant: Tenant = TENANT) -> None:
    """Let a node serve blocks as a member that has the secret of ``tenant``."""
    node.install_job(TENANT.prefix, 1, None, [TENANT.public_key.native()])
    node.register_objects(
        _core.Name(TENANT.prefix), "s0", False, tenant.tag_key, root_key=key_of(tenant)
    )


def key_of(tenant: Tenant) -> _core.SigningKey:
    return _core.SigningKey("ed25519", TENANT.key_name, bytes.fromhex(tenant.key.secret))


def root_of(node: _core.Node, tenant: Tenant = TENANT, *, draft: bool) -> bytes:
    """The root of the block, once the node has published that."""
    operation, _ = node.publish_objects(
        [BLOCK], [CONTENTS], key_of(tenant), PACKET_BYTES, draft=draft
    )
    node.object_root(_core.Name(BLOCK))  # begins the deferred operation
    assert node.wait(operation, TIMEOUT_S) == (_core.STATUS_DONE, "")
    root = node.object_root(_core.Name(BLOCK))
    assert root is not None
    assert root.endswith(ZEROS) == draft
    return bytes(root)


def made_by(tenant: Tenant, *, draft: bool) -> bytes:
    with NodeAmongStrangers(0) as somewhere:
        join(somewhere.node, tenant)
        return root_of(somewhere.node, tenant, draft=draft)


def started_fetch(
    member: NodeAmongStrangers, *, root_only: bool = False
) -> tuple[int, _core.ObjectBuffer]:
    """A fetch of the block from the neighbour h1."""
    operation, [buffer] = member.node.fetch_objects(
        [BLOCK],
        _core.Name("/n/h1"),
        _core.Name(TENANT.key_name),
        timeout_s=TIMEOUT_S,
        root_only=root_only,
        to_neighbour=True,
    )
    return operation, buffer


def without_digests() -> list[bytes]:
    """The root of the block, and its segments, before anybody has needed their digests."""
    with NodeAmongStrangers(1) as somewhere:
        join(somewhere.node)
        [asking] = somewhere.neighbours
        root = root_of(somewhere.node, draft=True)
        segments = []
        for segment in range(SEGMENTS):
            asking.send(interest(f"{BLOCK}/seg={segment}", nonce=segment + 1))
            segments.append(received(asking))
        assert bytes(32 * SEGMENTS) in root
        return [root, *segments]


def accepting_draft(hop_limit: int, nonce: int) -> bytes:
    """An Interest for the root that accepts a draft."""
    [(number, value)] = tlv.decode(bytes(interest(ROOT, nonce=nonce)))
    hops = tlv.encode(TlvType.HOP_LIMIT, bytes([hop_limit]))
    return tlv.encode(number, value, hops, tlv.encode(TlvType.ACCEPTS_DRAFT, b""))


@pytest.fixture
def member() -> Iterator[NodeAmongStrangers]:
    """A member of the pool, with a neighbour."""
    with NodeAmongStrangers(1) as made:
        join(made.node)
        yield made


@pytest.fixture
def switch() -> Iterator[NodeAmongStrangers]:
    """A switch between two neighbours."""
    with NodeAmongStrangers(2, lambda settings: setattr(settings, "cache_bytes", 1 << 20)) as made:
        made.node.add_route(TENANT.prefix, 1)
        yield made


def received(neighbour: Neighbour) -> bytes:
    return neighbour.receive("data")[1]


def test_a_stranger_gets_the_root_that_is_signed_at_once(member: NodeAmongStrangers) -> None:
    [stranger] = member.neighbours
    draft = root_of(member.node, draft=True)
    stranger.send(accepting_draft(hop_limit=1, nonce=1))
    assert received(stranger) == draft  # it would not pass that on
    for request in (accepting_draft(hop_limit=2, nonce=2), interest(ROOT, nonce=3)):
        stranger.send(request)
        assert received(stranger) == made_by(TENANT, draft=False)


@pytest.mark.parametrize("knows_tenant", [True, False])
def test_a_draft_goes_no_further_than_the_first_switch(
    switch: NodeAmongStrangers, *, knows_tenant: bool
) -> None:
    asking, far = switch.neighbours
    if knows_tenant:
        switch.node.install_job(TENANT.prefix, 1, None, [TENANT.public_key.native()])
        for face in (0, 1):
            switch.node.bind_face(face, None)
            switch.node.admit_face(face, TENANT.prefix)
    asking.send(accepting_draft(hop_limit=1, nonce=1))
    assert switch.counted("hop_limit_exceeded", asking) == 1
    asking.send(accepting_draft(hop_limit=9, nonce=2))
    far.receive("interest")
    far.send(made_by(TENANT, draft=True))
    assert switch.counted("invalid_signature", far) == 1
    assert (asking.heard(), switch.counter("cache_entries")) == ([], 0)
    far.send(made_by(TENANT, draft=False))
    assert received(asking) == made_by(TENANT, draft=False)


def test_a_member_takes_no_draft_of_a_stranger_and_none_that_is_changed(
    member: NodeAmongStrangers,
) -> None:
    [neighbour] = member.neighbours
    member.node.add_route("/n/h1", 0)
    true = made_by(TENANT, draft=True)
    changed = bytearray(true)
    changed[len(changed) // 2] ^= 1
    operation, buffer = started_fetch(member, root_only=True)
    neighbour.receive("interest")
    for count, forged in enumerate((made_by(STRANGER, draft=True), bytes(changed)), 1):
        neighbour.send(forged)
        assert member.counted("invalid_signature", neighbour) == count
    neighbour.send(true)
    assert member.node.wait(operation, TIMEOUT_S) == (_core.STATUS_DONE, "")
    assert buffer.root() == true


@pytest.mark.parametrize("asks_first", [True, False])
@pytest.mark.parametrize("digest", ["", f"/sha256digest={'00' * 32}"])
def test_a_stranger_that_asks_for_the_same_segments_gets_none_and_holds_up_nobody(
    *, asks_first: bool, digest: str
) -> None:
    packets = {Outline.of(packet).uri: packet for packet in without_digests()}
    with NodeAmongStrangers(2) as member:
        join(member.node)
        home, stranger = member.neighbours
        member.node.add_route("/n/h1", 0)

        def ask() -> None:
            for segment in range(SEGMENTS):
                name = f"{BLOCK}/seg={segment}{digest}"
                nonce = segment + 1
                stranger.send(interest(name, nonce=nonce, hints=["/n/h1"], lifetime_ms=60_000))
            assert member.counted("pit_entries", stranger) >= SEGMENTS

        def answer(wanted: Outline) -> None:
            home.send(packets[wanted.uri.removesuffix(digest)])

        if asks_first:
            ask()
            for _ in range(SEGMENTS):
                answer(home.receive("interest")[0])
            member.counted("unknown_key", home)
        operation, buffer = started_fetch(member)
        if not asks_first:
            ask()
        while not (ended := member.node.wait(operation, 0.0)) or ended[0] != _core.STATUS_DONE:
            if came := home.receive_within(0.2, "interest"):
                answer(came[0])
        assert bytes(memoryview(buffer)) == CONTENTS.tobytes()  # type: ignore[arg-type]
        assert [heard for heard in stranger.heard() if heard.kind == "data"] == []
        assert member.counter("cache_entries") == 0
