"""Whether a run keeps its arrays in memory, or thin ones that stand for them."""

from __future__ import annotations

from typing import Final, Literal

from innet.lab.simulation.simulation import largest_virtual_scale
from innet.lab.simulation.workload import Workload
from innet.lab.simulation.workload.model import AstraSimJob, CollectiveJob, Job, KvJob
from innet.topology import Topology

Payloads = Literal["auto", "real", "virtual"]
"""``auto``: real as long as the arrays of all hosts take little memory."""

_MOST_REAL_BYTES: Final = 1 << 30
_WANTED_BYTES: Final = 1 << 25
_LEAST_SCALE: Final = 16
_ONE_FROM_EACH: Final = ("allgather", "gather")


def virtual_scale(payloads: Payloads, topology: Topology, workload: Workload) -> int:
    """How many bytes each byte of an array shall stand for; 1: it is what it is.

    A power of two, so that usual sizes remain what they are.
    """
    held_bytes = sum(_held_bytes(job, topology) for job in workload.jobs)
    if payloads == "real" or (payloads == "auto" and held_bytes <= _MOST_REAL_BYTES):
        return 1
    scale = _LEAST_SCALE
    while held_bytes // scale > _WANTED_BYTES:
        scale *= 2
    while scale > largest_virtual_scale(topology):
        scale //= 2
    return max(1, scale)


def _held_bytes(job: Job, topology: Topology) -> int:
    """About what the arrays of all ranks take at once."""
    ranks = len(job.written.hosts or topology.hosts)
    if isinstance(job, CollectiveJob):
        results = ranks if job.written.operation in _ONE_FROM_EACH else 1
        return ranks * job.written.size * (1 + results)
    if isinstance(job, AstraSimJob):
        phases = (
            phase.size_bytes
            for layer in job.model.layers
            for phase in (layer.forward, layer.input_gradient, layer.weight_gradient)
        )
        return ranks * sum(phases)
    if isinstance(job, KvJob):
        blocks = {block for request in job.requests for block in request.blocks}
        return job.written.replicas * job.written.block * len(blocks)
    return ranks * sum(layer.gradient_bytes for layer in job.layers)
