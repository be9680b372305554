"""How much of a tensor goes into one packet."""

from __future__ import annotations

from typing import Any

import pytest

from innet.cluster.emulation.segmentation import (
    block_segment_bytes,
    segment_bytes,
)
from innet.node.node_config import IP_UDP_HEADER_BYTES
from innet.topology import load_topology
from innet.worker.job_file import SEGMENT_OVERHEAD_BYTES

IN_A_FRAME = 8704
LARGEST = 65216


def test_links_in_memory_take_large_segments() -> None:
    topology = load_topology("star:2")
    assert segment_bytes(topology, in_memory=True) == LARGEST
    assert segment_bytes(topology) == IN_A_FRAME


def test_a_capture_can_show_the_packet_of_the_largest_segment_as_a_datagram() -> None:
    assert LARGEST + SEGMENT_OVERHEAD_BYTES + IP_UDP_HEADER_BYTES <= 65535


@pytest.mark.parametrize(
    "setting", [{"mtu_bytes": 9000}, {"rate_bps": 1e9}, {"delay_s": 1e-3}, {"loss": 0.01}]
)
def test_what_is_set_of_a_link_holds_in_memory_as_well(setting: dict[str, Any]) -> None:
    topology = load_topology("star:2").with_overrides(**setting)
    assert segment_bytes(topology, in_memory=True) == IN_A_FRAME


def test_an_override_of_something_else_sets_no_mtu() -> None:
    topology = load_topology("star:2").with_overrides(queue_bytes=1 << 20)
    assert segment_bytes(topology, in_memory=True) == LARGEST


def test_blocks_of_pools_fit_the_packets_of_ndn_programs() -> None:
    assert block_segment_bytes(load_topology("star:2")) == IN_A_FRAME
