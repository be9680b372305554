"""Processor costs of the nodes of a launched network on this machine."""

from __future__ import annotations

import os
from typing import Final

from innet.cluster.emulation.local_fabric import (
    has_memory_links,
    has_only_memory,
    is_on_one_machine,
)
from innet.cluster.emulation.segmentation import bulk_segment_bytes, segment_bytes
from innet.cluster.launch.calibration import MachineSpeed
from innet.node.node_config import Mode
from innet.plans import ProcessorCosts
from innet.settings import Settings
from innet.topology import Topology

# What a node does takes longer than the same work in a loop that has the processor for itself, with
# warm caches. The factors were fitted to comparisons of all algorithms (benchmarks/auto.py).
_OPERATION_IN_FORWARDED: Final = 190.0
_WAKE_UP: Final = 12.0
_PACKET_IN_FORWARDED: Final = 0.5
_PACKET_IN_DATAGRAMS: Final = 5.6
_FORWARDED: Final = 1.0
_OPERAND_IN_FORWARDED: Final = 1.0
# How often a byte of a link costs what a copied byte does, at each end.
_BYTE_OF_MEMORY_IN_COPIED: Final = 13.0
_BYTE_OF_DATAGRAMS_IN_COPIED: Final = 7.0
_BYTE_OF_DATAGRAMS: Final = 3.8
_ADDED_BYTE: Final = 2.0


def network_costs(
    topology: Topology, mode: Mode, settings: Settings, speed: MachineSpeed
) -> ProcessorCosts:
    """The costs of work on the nodes of ``topology``, which all run on machines like this one.

    It depends on nothing else, so that whoever computes it gets the same on one machine.
    """
    is_one_machine = is_on_one_machine(topology, mode)
    in_memory = is_one_machine and has_memory_links(mode, settings)
    signature = settings.security.signature
    trusts_memory = settings.security.trusted_memory and has_only_memory(topology, mode, settings)
    signing = speed.signatures["none" if signature == "gmac" and trusts_memory else signature]
    datagram_s = 0.0 if in_memory else speed.datagram_s
    return ProcessorCosts(
        operation_s=_OPERATION_IN_FORWARDED * speed.forwarded_s,
        wake_up_s=_WAKE_UP * speed.wake_up_s,
        packet_s=_PACKET_IN_FORWARDED * speed.forwarded_s + _PACKET_IN_DATAGRAMS * datagram_s,
        carried_byte_s=_carried_byte_s(speed, in_memory=in_memory),
        forwarded_s=_FORWARDED * speed.forwarded_s,
        operand_s=_OPERAND_IN_FORWARDED * speed.forwarded_s,
        added_byte_s=_ADDED_BYTE * speed.added_byte_s,
        signature_s=signing.packet_s,
        signed_byte_s=signing.byte_s,
        cores=len(os.sched_getaffinity(0)),
        shared=is_one_machine,
        segment_bytes=segment_bytes(topology, in_memory=has_memory_links(mode, settings)),
        bulk_segment_bytes=bulk_segment_bytes(topology, mode),
    )


def _carried_byte_s(speed: MachineSpeed, *, in_memory: bool) -> float:
    if in_memory:
        return _BYTE_OF_MEMORY_IN_COPIED * speed.copied_byte_s
    in_nodes_s = _BYTE_OF_DATAGRAMS_IN_COPIED * speed.copied_byte_s
    return in_nodes_s + _BYTE_OF_DATAGRAMS * speed.datagram_byte_s
