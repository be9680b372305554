"""How much of a tensor goes into one packet."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.cluster.emulation.machine_fabric import with_discovered_mtus
from innet.cluster.emulation.segmentation import (
    block_segment_bytes,
    bulk_segment_bytes,
    segment_bytes,
)
from innet.node.node_config import IP_UDP_HEADER_BYTES
from innet.plans import SegmentRoom
from innet.topology import load_topology
from innet.worker.job_file import SEGMENT_OVERHEAD_BYTES

IN_A_FRAME = 8704
LARGEST = 65216


def test_links_in_memory_take_large_segments() -> None:
    topology = load_topology("star:2")
    assert segment_bytes(topology, in_memory=True) == LARGEST
    assert segment_bytes(topology) == IN_A_FRAME


def test_a_capture_can_show_the_largest_segment_as_one_datagram() -> None:
    assert LARGEST + SEGMENT_OVERHEAD_BYTES + IP_UDP_HEADER_BYTES <= 65535


@pytest.mark.parametrize(
    "setting", [{"mtu_bytes": 9000}, {"rate_bps": 1e9}, {"delay_s": 1e-3}, {"loss": 0.01}]
)
def test_link_settings_apply_to_memory_links_too(setting: dict[str, Any]) -> None:
    topology = load_topology("star:2").with_overrides(**setting)
    assert segment_bytes(topology, in_memory=True) == IN_A_FRAME


def test_an_override_of_another_property_sets_no_mtu() -> None:
    topology = load_topology("star:2").with_overrides(queue_bytes=1 << 20)
    assert segment_bytes(topology, in_memory=True) == LARGEST


def test_blocks_of_pools_fit_the_packets_of_ndn_programs() -> None:
    assert block_segment_bytes(load_topology("star:2"), "local") == IN_A_FRAME


def test_a_block_has_the_largest_segments_that_links_carry_unfragmented() -> None:
    wide = load_topology("star:2").with_overrides(mtu_bytes=65000)
    assert block_segment_bytes(wide, "cluster") == block_segment_bytes(wide, "local")
    narrow = load_topology("star:2").with_overrides(mtu_bytes=1500)
    assert block_segment_bytes(narrow, "cluster") == bulk_segment_bytes(narrow, "cluster") > 60000
    lossy = narrow.with_overrides(loss=0.01)
    assert block_segment_bytes(lossy, "cluster") == segment_bytes(narrow)


def test_fast_links_of_the_kernel_take_segments_of_several_datagrams() -> None:
    topology = load_topology("star:2")
    for rate_bps in (None, 1e9, 200e6):
        fast = topology.with_overrides(rate_bps=rate_bps)
        assert bulk_segment_bytes(fast, "netns") > 6 * IN_A_FRAME


@pytest.mark.parametrize(
    "setting", [{"rate_bps": 50e6}, {"loss": 0.01}, {"rate_bps": 1e9, "queue_bytes": 100_000}]
)
def test_a_link_that_may_reorder_fragments_has_one_datagram_per_segment(
    setting: dict[str, Any],
) -> None:
    topology = load_topology("star:2").with_overrides(**setting)
    assert bulk_segment_bytes(topology, "netns") == 0


def test_links_without_datagrams_have_no_fragments() -> None:
    topology = load_topology("star:2")
    assert bulk_segment_bytes(topology, "local") == 0
    assert bulk_segment_bytes(topology.model_copy(update={"links": ()}), "netns") == 0


@given(
    size_bytes=st.integers(0, 1 << 34),
    shards=st.integers(1, 1024),
    packet=st.integers(1, 500),
    bulk=st.integers(0, 1000),
)
def test_operations_have_segments_of_a_packet_or_more_and_many_of_them(
    size_bytes: int, shards: int, packet: int, bulk: int
) -> None:
    room = SegmentRoom(64 * packet, 64 * bulk)
    content = room.of(size_bytes, shards)
    assert content % 64 == 0
    assert room.packet_bytes <= content <= max(room.packet_bytes, room.bulk_bytes)
    assert content == room.packet_bytes or size_bytes >= 64 * content
    assert content == room.packet_bytes or size_bytes >= 8 * shards * content


def test_segments_of_a_cluster_follow_the_paths_between_its_machines() -> None:
    topology = load_topology("star:2")
    found = with_discovered_mtus(topology, {0: 1472, 1: 8972})
    narrow = topology.with_overrides(mtu_bytes=1500)
    assert segment_bytes(found, in_memory=True) == segment_bytes(narrow)
    assert bulk_segment_bytes(found, "cluster") == bulk_segment_bytes(found, "netns") > 0
    assert bulk_segment_bytes(found.with_overrides(rate_bps=1e9), "cluster") == 0
