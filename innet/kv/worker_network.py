"""The network of a pool over a node of this process: of its worker, or of none while a pool is
down."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from typing import Final

from innet._native import _core
from innet.collectives.objects import PACKET_OVERHEAD_BYTES
from innet.kv.node_network import NetworkOptions, NodeBlockNetwork
from innet.kv.tenant import Tenant
from innet.node.messages import MAX_TENANT_NAME, PoolReport
from innet.node.native_settings import NodeSizes, native_settings
from innet.security.pool_proofs import pool_statement
from innet.settings import Settings
from innet.topology.routes import Routes
from innet.worker import Worker
from innet.worker.collector import AskedObjects, LoopCollector

DEFAULT_WEIGHT: Final = 1
_PROCESS_BITS: Final = 64
_SEED_BITS: Final = 48
UNATTACHED: Final = "unattached"
"""Name of a node without a network."""
_UNATTACHED_PACKET_BYTES: Final = 1300
"""Every network's packets are as large."""


class LoopHost:
    """A :class:`~innet.kv.node_network.BlockHost` of the running event loop."""

    def __init__(self, node: _core.Node, asked_objects: AskedObjects) -> None:
        """``asked_objects`` is the node's."""
        self.node = node
        self.collector = LoopCollector(node)
        self.asked_objects = asked_objects


@asynccontextmanager
async def open_worker_network(
    worker: Worker,
    tenant: Tenant,
    *,
    capacity_bytes: int = 0,
    weight: int = DEFAULT_WEIGHT,
    replicas: int = 1,
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
        replicas: homes of each block, the same for all members.

    Raises:
        KVError: this process has a pool of that tenant already.
        ControlError: the controller refuses, or does not answer.
    """
    statement = pool_statement(
        worker.network_key, worker.config.node, worker.incarnation, tenant.component
    )
    part = PoolReport(
        tenant=tenant.component,
        key=tenant.public_key,
        capacity_bytes=capacity_bytes,
        weight=weight,
        replicas=replicas,
        name=tenant.name[:MAX_TENANT_NAME],
        proof=tenant.proof(statement),
    )

    async def ask_members() -> Mapping[str, int]:
        return await asyncio.to_thread(worker.pools.members, tenant.component)

    @cache
    def distance(member: str) -> int:
        return routes().distance(worker.config.node, member)

    routes = cache(lambda: Routes(worker.topology()))
    host = LoopHost(worker.node, worker.asked_objects)
    network = NodeBlockNetwork(
        worker.config.node,
        host,
        tenant,
        ask_members,
        NetworkOptions(
            weight=weight,
            packet_bytes=worker.block_segment_bytes + PACKET_OVERHEAD_BYTES,
            process=secrets.randbits(_PROCESS_BITS),
            distance=distance,
            neighbours=frozenset(face.peer for face in worker.config.faces),
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


@asynccontextmanager
async def open_unattached_network(tenant: Tenant) -> AsyncIterator[NodeBlockNetwork]:
    """A network without other members, over a node without links.

    It signs what is put, so that this process has it, and may serve it once its pool is up.
    """
    settings, sizes = Settings(), NodeSizes(seed=secrets.randbits(_SEED_BITS))
    native = native_settings(UNATTACHED, settings, sizes)
    node = _core.Node(native, _core.SigningKey("digest"), [])
    node.start()

    async def ask_members() -> Mapping[str, int]:
        return {}

    async with AsyncExitStack() as closing:
        closing.callback(node.stop, "the pool is closed, or has another node")
        host = LoopHost(node, AskedObjects(node))
        closing.callback(host.collector.close)
        options = NetworkOptions(
            packet_bytes=_UNATTACHED_PACKET_BYTES,
            process=secrets.randbits(_PROCESS_BITS),
            distance=lambda _: 0,
        )
        network = NodeBlockNetwork(UNATTACHED, host, tenant, ask_members, options)
        closing.push_async_callback(network.stop)
        await network.start()
        yield network
