"""A member that answers first with another's object: the forgery is dropped, the object arrives."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from innet.errors import SecurityError
from innet.ndn.wire import parse_data
from innet.security import node_certificate_name
from innet.security.group_keys import GroupCredentials, GroupKeySource, JobSecret, epoch_name
from innet.security.trust import Policy
from innet.tlv_numbers import SignatureType
from innet.topology import load_topology
from tests.attacks.crafted_data import (
    Wire,
    data_name,
    encoded_name,
    signed_by_hmac,
    signed_by_key,
    signed_by_nobody,
)
from tests.collectives.cluster import Cluster

HOSTS = ("h0", "h1", "h2")
OBJECT = bytes(range(256)) * 240
GROUP = "/j/g1"
SECRET = JobSecret(signature="hmac", secret="5a" * 32)


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def cluster(wire: Wire) -> Iterator[Cluster]:
    """Three hosts on a switch; ``wire`` is the link of h1, whose owner has a member's keys."""
    tamper = {("h1", "s0"): wire}
    # With a policy, nodes know no keys but those of their groups, as in a job.
    policy = Policy.load("job")
    with Cluster(load_topology("star:3"), tamper=tamper, signature="hmac", policy=policy) as made:
        made.communicators = made.group("g1", HOSTS, "inc")
        credentials = credentials_of(made)
        for node in made.nodes.values():
            credentials.install(node)
        yield made


def credentials_of(cluster: Cluster) -> GroupCredentials:
    """What a controller deals to the group."""
    keys = {host: cluster.object_key_of(host) for host in HOSTS}
    source = GroupKeySource(secret=SECRET, hosts=keys)
    return source.credentials([GROUP], epoch_name([GROUP], 1), HOSTS)


def signed_by_another_member(cluster: Cluster, root: bytes) -> bytes:
    """The root as h2 would sign it, with its own key."""
    certificate = node_certificate_name("h2", "j")
    return signed_by_key(root, data_name(root), certificate, cluster.key_of("h2"))


def signed_by_the_shared_key(cluster: Cluster, root: bytes) -> bytes:
    """The root with the key that all members have."""
    key = credentials_of(cluster).key
    assert key is not None
    name = encoded_name(key.name)
    return signed_by_hmac(root, name, bytes.fromhex(key.secret), parse_data(root).content)


@pytest.mark.parametrize("forge", [signed_by_another_member, signed_by_the_shared_key])
def test_a_forged_root_ends_no_fetch(
    cluster: Cluster, wire: Wire, forge: Callable[[Cluster, bytes], bytes]
) -> None:
    def first_the_forged(datagram: bytes) -> list[bytes]:
        if not data_name(datagram).endswith("32=manifest/seg=0"):
            return [datagram]
        return [forge(cluster, datagram), datagram]

    wire.change = first_the_forged
    before = cluster.status("s0")["node"]["key_out_of_scope"]
    cluster.communicators[1].publish("model", OBJECT)
    for rank in (0, 2):  # what came first is in no cache either
        assert cluster.communicators[rank].fetch("model", source=1).tobytes() == OBJECT
    assert wire.changed > 0
    assert cluster.status("s0")["node"]["key_out_of_scope"] > before


# Without a trust policy, each node's key is good for every name.


def forged_root(cluster: Cluster, datagram: bytes) -> bytes | None:
    """Another member's root in place of the one that the datagram is."""
    if not data_name(datagram).endswith("32=manifest/seg=0"):
        return None
    return signed_by_another_member(cluster, datagram)


@pytest.mark.parametrize("signature", ["ed25519", "digest", "none"])
def test_a_forged_root_in_a_cache_ends_no_fetch(wire: Wire, signature: str) -> None:
    def forge_the_first(datagram: bytes) -> list[bytes]:
        forged = forged_root(made, datagram) if wire.changed == 0 else None
        return [forged or datagram]

    tamper = {("h1", "s0"): wire}
    with Cluster(load_topology("star:3"), tamper=tamper, signature=signature) as made:
        wire.change = forge_the_first
        made.communicators[1].publish("model", OBJECT)
        for rank in (0, 2):
            assert made.communicators[rank].fetch("model", source=1).tobytes() == OBJECT
        assert wire.changed == 1
        assert made.status("h0")["endpoint"]["forged_roots"] == 1


def test_a_node_that_forges_every_root_is_named_when_the_fetch_ends(wire: Wire) -> None:
    tamper = {("h1", "s0"): wire}
    with Cluster(
        load_topology("star:3"), tamper=tamper, signature="ed25519", timeout_s=1.0
    ) as cluster:
        wire.change = lambda datagram: [forged_root(cluster, datagram) or datagram]
        cluster.communicators[1].publish("model", OBJECT)
        with pytest.raises(SecurityError, match=r"but \d+ of other signers \(the last by /n/h2"):
            cluster.communicators[0].fetch("model", source=1)


@pytest.mark.parametrize(
    ("signature", "kind"),
    [("digest", SignatureType.DIGEST_SHA256), ("none", SignatureType.NULL)],
)
def test_an_unsigned_root_is_dropped_where_digests_suffice_for_other_data(
    wire: Wire, signature: str, kind: SignatureType
) -> None:
    def first_the_forged(datagram: bytes) -> list[bytes]:
        if not data_name(datagram).endswith("32=manifest/seg=0"):
            return [datagram]
        return [signed_by_nobody(datagram, kind), datagram]

    tamper = {("h1", "s0"): wire}
    topology = load_topology("star:3")
    with Cluster(topology, tamper=tamper, signature=signature, installs_job=True) as cluster:
        wire.change = first_the_forged
        cluster.communicators[1].publish("model", OBJECT)
        for rank in (0, 2):
            assert cluster.communicators[rank].fetch("model", source=1).tobytes() == OBJECT
        assert wire.changed > 0
        assert cluster.status("s0")["node"]["unknown_key"] > 0
