"""No packet of a group is larger than the frames of the links, however long the names are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from innet.cluster.emulation.segmentation import (
    FRAGMENT_HEADER_BYTES,
    MAX_DATAGRAM_BYTES,
    MAX_DATAGRAMS,
    bulk_segment_bytes,
    segment_bytes,
)
from innet.collectives import Communicator
from innet.collectives.group import overhead_bytes
from innet.node.node_config import IP_UDP_HEADER_BYTES
from innet.settings import Signature
from innet.topology import Topology, load_topology
from innet.topology.names import MAX_NAME_CHARACTERS
from innet.topology.parts import MIN_MTU_BYTES
from innet.worker.job_file import SEGMENT_OVERHEAD_BYTES, JobFile
from tests.collectives.cluster import Cluster

MTU_BYTES = 1500
LONGEST_PREFIX = "/job-12-chars.9999/a-group-16-chars.halving-doubling.r9.99"
GROUP = "a-job-with-12-characters.a-group-16-chars.halving-doubling.r9.99"


def job(topology: Topology) -> JobFile:
    return JobFile(
        name="j1",
        ranks=tuple(topology.hosts),
        topology="",
        slowest_link_bps=None,
        segment_bytes=segment_bytes(topology),
        bulk_segment_bytes=bulk_segment_bytes(topology, "netns"),
        block_segment_bytes=segment_bytes(topology),
        controller_socket=Path(),
        certificates=Path(),
    )


def longest_names(path: Path) -> Topology:
    hosts = [f"h{number}".ljust(MAX_NAME_CHARACTERS, "x") for number in range(2)]
    switch = "s".ljust(MAX_NAME_CHARACTERS, "x")
    lines = [
        "name: longest",
        "topology:",
        f"  defaults: {{link: {{mtu: {MTU_BYTES}}}}}",
        "  nodes:",
        f"    {switch}: {{kind: switch}}",
        *(f"    {host}: {{kind: host}}" for host in hosts),
        "  links:",
        *(
            f'    - {{endpoints: ["{host}:eth0", "{switch}:eth{number}"]}}'
            for number, host in enumerate(hosts)
        ),
    ]
    path.write_text("\n".join(lines))
    return load_topology(str(path))


@pytest.mark.parametrize("signature", ["gmac", "hmac", "digest", "ed25519"])
def test_packets_with_the_longest_names_and_metadata_fit_the_mtu(
    signature: Signature, tmp_path: Path
) -> None:
    topology = longest_names(tmp_path / "longest.yaml")
    host, _ = topology.hosts
    (switch,) = topology.switches
    sizes = []

    def note(datagram: bytes) -> Sequence[bytes]:
        sizes.append(len(datagram))
        return [datagram]

    def call(communicator: Communicator) -> None:
        array = np.ones(4 * MTU_BYTES, np.float32)
        for length in range(1, 5):  # what the next call compares
            communicator.broadcast(np.ones(length, np.float32), root=0)
        communicator.allreduce(array)
        communicator.broadcast(array[:1], root=0)
        communicator.allgather(array)

    room = job(topology).segment_room_beside(overhead_bytes([f"/j/{GROUP}"], 2, signature))
    content = room.packet_bytes
    with Cluster(
        topology, tamper={(host, switch): note}, segment_bytes=content, signature=signature
    ) as cluster:
        cluster.communicators = cluster.group(GROUP, topology.hosts, "halving-doubling")
        assert cluster.run(call) == [None, None]
    assert content < max(sizes) <= MTU_BYTES - IP_UDP_HEADER_BYTES


@pytest.mark.parametrize("signature", ["gmac", "hmac", "digest", "none"])
@pytest.mark.parametrize("algorithm", ["inc", "ring", "ps", "halving-doubling"])
def test_usual_names_fit_the_room_beside_a_full_segment(
    signature: Signature, algorithm: str
) -> None:
    assert overhead_bytes([f"/j1/g0.{algorithm}"], 1024, signature) <= SEGMENT_OVERHEAD_BYTES


@pytest.mark.parametrize("signature", ["gmac", "hmac", "digest", "none", "ed25519"])
@pytest.mark.parametrize("mtu_bytes", [MIN_MTU_BYTES, MTU_BYTES, 9000])
def test_the_longest_names_leave_room_for_a_segment_on_every_link(
    mtu_bytes: int, signature: Signature
) -> None:
    topology = load_topology("star:2").with_overrides(mtu_bytes=mtu_bytes)
    overhead = overhead_bytes([LONGEST_PREFIX], 1024, signature)
    room = job(topology).segment_room_beside(overhead)
    assert 0 < room.packet_bytes <= mtu_bytes - IP_UDP_HEADER_BYTES - overhead
    datagram_bytes = mtu_bytes - IP_UDP_HEADER_BYTES
    datagrams = -(-(room.bulk_bytes + overhead) // (datagram_bytes - FRAGMENT_HEADER_BYTES))
    assert datagrams <= MAX_DATAGRAMS
    assert datagrams * datagram_bytes <= MAX_DATAGRAM_BYTES
