"""What was true once is not taken for anything else: replays, older keys, swaps and cuts.

Each is injected in front of the true packet. The counters of the switch show that it was caught,
and the results that it changed nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from innet.collectives import Communicator
from innet.ndn.wire import parse_data
from innet.security import KeyDealer
from innet.security.group_keys import GroupCredentials, epoch_name
from innet.security.trust import tlv
from innet.tlv_numbers import TlvType
from innet.topology import load_topology
from tests.attacks.crafted_data import (
    Wire,
    data_name,
    encoded_name,
    renamed,
    signed_by_hmac,
    with_element,
)
from tests.collectives.cluster import Cluster

HOSTS = ("h0", "h1", "h2")
ELEMENTS = 600  # three segments


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def cluster(wire: Wire) -> Iterator[Cluster]:
    """Three hosts on a switch; ``wire`` is the link of h1."""
    tamper = {("h1", "s0"): wire}
    with Cluster(load_topology("star:3"), tamper=tamper, signature="hmac") as made:
        yield made


def switch_counters(cluster: Cluster) -> dict[str, int]:
    counters: dict[str, int] = cluster.status("s0")["node"]
    return counters


def caught(cluster: Cluster, before: dict[str, int], counter: str) -> int:
    return switch_counters(cluster)[counter] - before[counter]


def sums(cluster: Cluster, communicators: list[Communicator]) -> list[float]:
    """A sum over the ranks' numbers, of each rank; 0 for an error, or one that differs by place."""
    cluster.communicators, kept = communicators, cluster.communicators
    try:
        results = cluster.run(
            lambda comm: comm.allreduce(np.full(ELEMENTS, comm.rank + 1, np.float32))
        )
    finally:
        cluster.communicators = kept
    arrays = [result if isinstance(result, np.ndarray) else np.zeros(1) for result in results]
    return [float(array[0]) if (array == array[0]).all() else 0.0 for array in arrays]


def test_a_contribution_replayed_in_the_next_operation_is_refused(cluster, wire):
    recorded: dict[str, bytes] = {}

    def record(datagram: bytes) -> list[bytes]:
        recorded.setdefault(data_name(datagram), datagram)
        return [datagram]

    def replay(datagram: bytes) -> list[bytes]:
        old = list(recorded.values())
        return [*old[:3], *(renamed(packet, datagram) for packet in old[:3]), datagram]

    wire.change = record
    assert sums(cluster, cluster.communicators) == [6.0] * 3
    before = switch_counters(cluster)
    wire.change = replay
    assert sums(cluster, cluster.communicators) == [6.0] * 3
    assert wire.changed > 0
    assert caught(cluster, before, "unsolicited_data") > 0  # under its own name
    assert caught(cluster, before, "invalid_signature") > 0  # under the next one's


class Epochs:
    """Two groups on one network: all three hosts, and then without h2."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._source = KeyDealer(["s0"], "hmac").deal("j", HOSTS).groups
        self.first = self._credentials(1, HOSTS)
        self.second = self._credentials(2, HOSTS[:2])
        self._install(self.first, (*HOSTS, "s0"))
        self.all_three = cluster.group("g1", HOSTS, "inc")
        self._install(self.second, (*HOSTS[:2], "s0"))
        self.without_h2 = cluster.group("g2", HOSTS[:2], "inc")

    def _credentials(self, number: int, members: tuple[str, ...]) -> GroupCredentials:
        prefixes = [f"/j/g{number}"]
        return self._source.credentials(prefixes, epoch_name(prefixes, number), members)

    def _install(self, credentials: GroupCredentials, nodes: tuple[str, ...]) -> None:
        for node in nodes:
            credentials.install(self._cluster.nodes[node])

    def forge(self, datagram: bytes, signer: GroupCredentials, called: GroupCredentials) -> bytes:
        """In place of a contribution: signed with one epoch's secret, under a key's name."""
        assert signer.key is not None
        assert called.key is not None
        content = np.full(256, 99, np.float32).tobytes()
        name = encoded_name(called.key.name)
        return signed_by_hmac(datagram, name, bytes.fromhex(signer.key.secret), content)


def test_a_key_of_an_earlier_epoch_signs_nothing_in_the_next(cluster, wire):
    epochs = Epochs(cluster)
    recorded: list[bytes] = []

    def record(datagram: bytes) -> list[bytes]:
        recorded.append(datagram)
        return [datagram]

    wire.change = record
    assert sums(cluster, epochs.all_three) == [6.0] * 3
    assert any(data_name(packet).startswith("/j/g1/1/sum.f32") for packet in recorded)

    def attack(datagram: bytes) -> list[bytes]:
        return [
            *recorded[:3],
            *(renamed(packet, datagram) for packet in recorded[:3]),
            epochs.forge(datagram, epochs.first, called=epochs.first),
            epochs.forge(datagram, epochs.first, called=epochs.second),
            datagram,
        ]

    before = switch_counters(cluster)
    wire.change = attack
    assert sums(cluster, epochs.without_h2) == [3.0] * 2
    assert caught(cluster, before, "unsolicited_data") > 0  # Data of the earlier epoch, as it was
    assert caught(cluster, before, "key_out_of_scope") > 0  # its key, under names of the next
    assert caught(cluster, before, "invalid_signature") > 0  # its secret, as if it were the next

    before = switch_counters(cluster)
    cluster.nodes["s0"].remove_group("/j/g1")
    assert sums(cluster, epochs.without_h2) == [3.0] * 2
    assert caught(cluster, before, "unknown_key") > 0  # once the earlier group is gone


def test_the_current_key_of_an_epoch_is_accepted(cluster, wire):
    """The forgeries above fail for their keys, and not because they are malformed."""
    epochs = Epochs(cluster)
    wire.change = lambda datagram: [
        epochs.forge(datagram, epochs.second, called=epochs.second),
        datagram,
    ]
    assert sums(cluster, epochs.without_h2) != [3.0] * 2


def test_segments_of_a_tensor_cannot_change_places(cluster, wire):
    last: list[bytes] = []

    def swap(datagram: bytes) -> list[bytes]:
        others = last[-1:]
        last.append(datagram)
        return [*(renamed(other, datagram) for other in others), datagram]

    before = switch_counters(cluster)
    wire.change = swap
    assert sums(cluster, cluster.communicators) == [6.0] * 3
    assert wire.changed > 0
    assert caught(cluster, before, "invalid_signature") > 0


def fetched(cluster: Cluster, contents: bytes) -> None:
    """Rank 0 fetches what rank 1 has published."""
    cluster.communicators[1].publish("model", contents)
    copy = cluster.communicators[0].fetch("model", source=1)
    assert copy.tobytes() == contents


def test_segments_of_an_object_cannot_change_places(cluster, wire):
    last: list[bytes] = []

    def swap(datagram: bytes) -> list[bytes]:
        others = last[-1:]
        if "manifest" not in data_name(datagram):
            last.append(datagram)
        return [*(renamed(other, datagram) for other in others), datagram]

    before = switch_counters(cluster)
    wire.change = swap
    fetched(cluster, bytes(range(256)) * 40)
    assert wire.changed > 0
    assert caught(cluster, before, "unsolicited_data") > 0


def cut_off(datagram: bytes) -> bytes:
    """A manifest without the last digest of its list."""
    blocks = [
        tlv.encode(kind, value[:-32] if len(value) > 8 else value)
        for kind, value in tlv.decode(parse_data(datagram).content)
    ]
    return with_element(datagram, TlvType.CONTENT, tlv.encode(TlvType.CONTENT, *blocks))


def test_a_truncated_manifest_is_refused(cluster, wire):
    roots: list[str] = []
    others: list[str] = []

    def truncate(datagram: bytes) -> list[bytes]:
        name = data_name(datagram)
        if "32=manifest" not in name:
            return [datagram]
        (roots if name.endswith("seg=0") else others).append(name)
        return [cut_off(datagram), datagram]

    before = switch_counters(cluster)
    wire.change = truncate
    fetched(cluster, bytes(range(256)) * 240)
    assert roots
    assert others
    # The root is signed, the others are named by their digest. A truncated one that comes after the
    # true one, because its Interest was sent twice, is caught as unsolicited, too.
    forged, unasked = (
        caught(cluster, before, counter) for counter in ("invalid_signature", "unsolicited_data")
    )
    assert forged > 0
    assert unasked >= len(others)
    assert forged + unasked >= len(roots) + len(others)
