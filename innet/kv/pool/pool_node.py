"""The parts of a pool at one node, which the pool's classes share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from innet.kv.pool.directory import HolderDirectory
from innet.kv.pool.inventory import Purges
from innet.kv.pool.network import BlockNetwork
from innet.kv.pool.peers import Members, PeerClient
from innet.kv.pool.served import ServedBlocks
from innet.kv.pool.settings import PoolSettings
from innet.kv.pool.statistics import PoolStatistics
from innet.kv.pool.store import LocalStore, ServedStore
from innet.kv.pool.tiered_store import TieredStore
from innet.kv.pool.window import BlockWindow


@dataclass(frozen=True)
class PoolNode:
    """The shared parts of a pool at one node.

    Attributes:
        network: of this node, for one tenant.
        settings: of the pool.
        counts: of its operations.
        members: of the pool.
        peers: requests to them.
        window: of blocks in flight.
        served: the blocks that this node serves.
        store: for blocks that others may request.
        local: for this node itself; it may be ``store``.
        directory: of members that have a block; ``None``: only homes are asked.
        purges: whose blocks are not kept for a while.
    """

    network: BlockNetwork
    settings: PoolSettings
    counts: PoolStatistics
    members: Members
    peers: PeerClient
    window: BlockWindow
    served: ServedBlocks
    store: ServedStore
    local: LocalStore
    directory: HolderDirectory | None
    purges: Purges

    @property
    def stores(self) -> Sequence[LocalStore]:
        """All stores: one or two."""
        return (self.store,) if self.local is self.store else (self.store, self.local)

    @classmethod
    def of_stores(
        cls,
        network: BlockNetwork,
        settings: PoolSettings,
        local: TieredStore,
        offered: TieredStore,
    ) -> PoolNode:
        """The parts of a node with these stores, which may be one."""
        served = ServedBlocks(network)
        store = ServedStore(offered, served, settings)
        own = store if local is offered else LocalStore(local, served, settings)
        purges = Purges()
        store.is_refused = own.is_refused = purges.refuse
        members = Members(network, settings.replicas, settings.leave_out_s)
        return cls(
            network=network,
            settings=settings,
            counts=PoolStatistics(),
            members=members,
            peers=PeerClient(network, members, settings.put_timeout_s),
            window=BlockWindow(settings.window),
            served=served,
            store=store,
            local=own,
            directory=HolderDirectory(network, members) if local is offered else None,
            purges=purges,
        )
