"""A worker's membership of a tenant's pool, over its node."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from innet._native import _core
from innet.collectives.objects import PACKET_OVERHEAD_BYTES
from innet.kv.node_network import NetworkOptions, NodeBlockNetwork
from innet.kv.tenant import Tenant
from innet.node.messages import PoolReport
from innet.worker import Worker
from innet.worker.asked_objects import AskedObjects
from innet.worker.collector import LoopCollector

DEFAULT_WEIGHT: Final = 1
_NONCE_BITS: Final = 64


def tenant_of_job(worker: Worker, name: str) -> Tenant:
    """The tenant of that name within the worker's job: its blocks cannot be used after the job."""
    return Tenant(name, worker.pool_secret)


class LoopHost:
    """A :class:`~innet.kv.node_network.BlockHost` of the running event loop."""

    def __init__(self, node: _core.Node, asked_objects: AskedObjects) -> None:
        """``asked_objects`` is the node's."""
        self.node = node
        self.collector = LoopCollector(node)
        self.asked_objects = asked_objects


@asynccontextmanager
async def open_worker_network(
    worker: Worker, tenant: Tenant, *, capacity_bytes: int = 0, weight: int = DEFAULT_WEIGHT
) -> AsyncIterator[NodeBlockNetwork]:
    """Join the tenant's pool, and leave it at the end of the block.

    Example::

        tenant = Tenant.from_file("acme", Path("acme.secret"))
        async with open_worker_network(current_worker(), tenant, capacity_bytes=1 << 30) as network:
            await network.publish(key.name, contents)

    Args:
        worker: of this process.
        tenant: whose blocks they are.
        capacity_bytes: of memory that this process offers to the other members; 0: none.
        weight: the pool's part of the switches' memory, beside other pools' and jobs' weights.

    Raises:
        KVError: this process has a pool of that tenant already.
        ControlError: the controller refuses, or does not answer.
    """
    part = PoolReport(
        tenant=tenant.component,
        key=tenant.public_key,
        capacity_bytes=capacity_bytes,
        weight=weight,
    )

    async def ask_members() -> Mapping[str, int]:
        return await asyncio.to_thread(worker.pools.members, tenant.component)

    host = LoopHost(worker.node, worker.asked_objects)
    network = NodeBlockNetwork(
        worker.config.node,
        host,
        tenant,
        ask_members,
        NetworkOptions(
            weight=weight,
            packet_bytes=worker.block_segment_bytes + PACKET_OVERHEAD_BYTES,
            first_nonce=secrets.randbits(_NONCE_BITS),
        ),
    )
    try:
        await asyncio.to_thread(worker.pools.open, part)
        try:
            await network.start()
            yield network
        finally:
            await network.stop()
            await asyncio.to_thread(worker.pools.leave, tenant.component)
    finally:
        host.collector.close()
