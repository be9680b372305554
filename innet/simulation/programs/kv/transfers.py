"""Blocks on their way: published as signed objects on one host, fetched by name from another.

Their contents are zeros, which say nothing; their names, lengths, signatures and packets are real.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from enum import Enum
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from innet._native import _core
from innet.errors import SimulationError
from innet.kv.names import KV_PREFIX, BlockFamily
from innet.simulation.simulation import Simulation

_JOB_WEIGHT: Final = 1
_SECRET_BYTES: Final = 32


class Fetched(Enum):
    """How a fetch ended."""

    HERE = "here"
    ABSENT = "absent"
    LATE = "late"


class BlockTransfers:
    """Moves the blocks of one job. A host that is down has none, and gets none.

    All of its workers sign with one key, the model's; so a block has the same bytes whoever
    published it, and a cache's copy is as good as the publisher's.
    """

    def __init__(
        self, sim: Simulation, family: BlockFamily, block_bytes: int, hosts: tuple[str, ...]
    ) -> None:
        """``hosts`` publish blocks; any node may pass them on."""
        self._sim = sim
        self._family = family
        self._hosts = hosts
        self._signer = _core.Name(f"{family.prefix}/KEY")
        secret = sim.network.number("kv", family.prefix).to_bytes(_SECRET_BYTES, "big")
        public = Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()
        self._signing_key = _core.SigningKey("ed25519", str(self._signer), secret)
        self._verifying_key = _core.SigningKey("ed25519", str(self._signer), public)
        self._contents = sim.array(block_bytes, "uint8")
        self._held: Counter[tuple[str, bytes]] = Counter()
        for node in sim.topology.nodes:
            self.begin_on(node)

    def begin_on(self, node: str) -> None:
        """Let a node that has just started carry blocks, and publish them if it is a host."""
        handle = self._sim.network.nodes[node]
        handle.install_job(KV_PREFIX, _JOB_WEIGHT, None, [self._verifying_key])
        if node in self._hosts:
            for held in [key for key in self._held if key[0] == node]:
                del self._held[held]
            handle.register_objects(_core.Name(self._family.prefix), node, False)

    def is_up(self, host: str) -> bool:
        """Whether the host's node is there."""
        return self._sim.network.is_alive(host)

    async def hold(self, host: str, block: bytes) -> bool:
        """Publish a block on ``host`` until :meth:`release` has been called as often as this.

        False when the host is down.
        """
        self._held[host, block] += 1
        if not self.is_up(host):
            return False
        if self._held[host, block] > 1:
            return True
        operation = self._node(host).publish_object(
            self._name(block), self._contents, self._signing_key, self._sim.packet_bytes
        )
        status, _ = await self._ended(host, operation)
        return status == _core.STATUS_DONE

    def release(self, host: str, block: bytes) -> None:
        """Publish a block no longer, if nobody else holds it there."""
        if (host, block) not in self._held:  # the host has lost all it had meanwhile
            return
        self._held[host, block] -= 1
        if self._held[host, block] == 0:
            del self._held[host, block]
            if self.is_up(host):
                self._node(host).withdraw_object(self._name(block))

    async def fetch(self, host: str, source: str, block: bytes, timeout_s: float) -> Fetched:
        """Fetch a block to ``host``; ``source`` is where to, unless a cache on the way has it."""
        if not self.is_up(host):
            return Fetched.ABSENT
        operation = self._node(host).fetch_object(
            self._name(block),
            _core.Name(f"/n/{source}"),
            self._signer,
            _core.ObjectBuffer(),
            timeout_s,
            may_be_absent=True,
        )
        status, detail = await self._ended(host, operation)
        if status == _core.STATUS_DONE:
            return Fetched.HERE
        if status == _core.STATUS_ABSENT:
            return Fetched.ABSENT
        if status in (_core.STATUS_UNTRUSTED, _core.STATUS_MISMATCH):
            raise SimulationError(
                f"{host} fetched a wrong block: {detail}. "
                "This is a defect of innet; please report it with the topology and the workload"
            )
        return Fetched.LATE

    def take_asked(self, host: str) -> list[bytes]:
        """The blocks that ``host`` itself was asked for since the last call, in that order."""
        if not self.is_up(host):
            return []
        names = (str(name) for name in self._node(host).take_objects_asked())
        return [bytes.fromhex(name.rpartition("/")[2]) for name in names]

    async def _ended(self, host: str, operation: int) -> tuple[int, str]:
        collector = self._sim.host(host).collector
        ended: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()

        def end(status: int, detail: str) -> None:
            if not ended.done():
                ended.set_result((status, detail))

        collector.deliver(operation, end)
        try:
            return await ended
        except asyncio.CancelledError:
            if self.is_up(host):
                collector.cancel(operation)
            raise

    def _name(self, block: bytes) -> _core.Name:
        return _core.Name(self._family.name(block))

    def _node(self, host: str) -> _core.NodeHandle:
        return self._sim.network.nodes[host]
