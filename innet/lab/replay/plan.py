"""How a replay divides its memory, and what its pools do: by design, the same in every mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from innet.errors import KVError, WorkloadError
from innet.kv.designs import LOCAL, NETWORK, Design, MemoryShares
from innet.kv.eviction import PolicyName
from innet.kv.placement import Placement
from innet.kv.pool import MemoryTier, PoolSettings, TieredStore
from innet.kv.prefill import PrefillCost
from innet.topology import Switch, Topology

if TYPE_CHECKING:
    from innet.lab.simulation.workload.kv import KvSpecification

_UNLIMITED_BYTES = 1 << 50
_WEIGHT_BYTES = 1 << 40
"""What a home of weight 1 offers where memory is unlimited."""
_REQUESTS_AT_ONCE = 8
"""More that load on one worker at the same time share their windows."""


@dataclass(frozen=True)
class ReplayPlan:
    """Made of plain values: worker processes get it as JSON.

    Attributes:
        design: one of :data:`~innet.kv.designs.DESIGNS`.
        policy: what workers and homes drop first.
        block_bytes: of each block.
        replicas: homes of a block.
        window: blocks that a request asks for at once.
        deadline_s: of a block; it is computed when it has not come by then.
        put_timeout_s: how long a block may take to its home.
        time_scale: the trace's times are multiplied by this.
        prefill: what computing costs.
        worker_blocks: that each worker has room for; ``None``: all.
        home_blocks: that each home has room for beside; ``None``: all.
        home_weights: of the homes.
        shares_memory: a host has one store for both, where it is a worker and a home.
    """

    design: str
    policy: PolicyName
    block_bytes: int
    replicas: int
    window: int
    deadline_s: float
    put_timeout_s: float
    time_scale: float
    prefill: PrefillCost
    worker_blocks: int | None
    home_blocks: dict[str, int | None]
    home_weights: dict[str, float]
    shares_memory: bool = False

    @classmethod
    def of(
        cls,
        written: KvSpecification,
        design: Design,
        workers: int,
        homes: Mapping[str, float],
        put_timeout_s: float,
    ) -> ReplayPlan:
        """The plan for what is written.

        Args:
            written: the job.
            design: of this run.
            workers: their number.
            homes: hosts that keep blocks for others, with their weights.
            put_timeout_s: how long a block may take to its home.
        """
        shares = _shares(written, design.name)
        homes = {} if design.name == LOCAL else homes
        each = shares.homes / sum(homes.values()) if homes else 0.0
        return cls(
            design=design.name,
            policy=design.policy or written.policy or design.usual_policy,
            block_bytes=written.block,
            replicas=written.replicas,
            window=written.window,
            deadline_s=written.deadline,
            put_timeout_s=put_timeout_s,
            time_scale=written.time_scale,
            prefill=PrefillCost(written.prefill.token, written.prefill.pair, written.prefill.start),
            worker_blocks=_blocks(written, shares.workers / workers),
            home_blocks={home: _blocks(written, each * weight) for home, weight in homes.items()},
            home_weights=dict(homes),
            shares_memory=design.name == NETWORK and written.worker_share is None,
        )

    @property
    def pool_settings(self) -> PoolSettings:
        """Of every node's pool."""
        caches = self.design == NETWORK
        return PoolSettings(
            replicas=self.replicas,
            window=_REQUESTS_AT_ONCE * self.window,
            timeout_s=self.deadline_s,
            put_timeout_s=self.put_timeout_s,
            puts="when-asked" if caches else "at-once",
            keeps_fetched=not caches,
        )

    def stores(self, host: str, room_bytes: int) -> tuple[TieredStore, TieredStore]:
        """What ``host`` keeps for itself, and for others; it may be one store.

        Args:
            host: a member.
            room_bytes: what a block takes with its manifest.
        """
        if self.shares_memory:
            store = self._store(self.shared_blocks(host), room_bytes)
            return store, store
        offered_blocks = self.home_blocks.get(host, 0)
        return self._store(self.worker_blocks, room_bytes), self._store(offered_blocks, room_bytes)

    def shared_blocks(self, host: str) -> int | None:
        """Blocks that the one store of ``host`` has room for; ``None``: all."""
        home_blocks = self.home_blocks.get(host, 0)
        if self.worker_blocks is None or home_blocks is None:
            return None
        return self.worker_blocks + home_blocks

    def offered_bytes(self, host: str) -> int:
        """The same as the others are told it: a home's part of the blocks is in proportion."""
        blocks = self.home_blocks.get(host, 0)
        if blocks is None:
            return int(self.home_weights[host] * _WEIGHT_BYTES)
        return blocks * self.block_bytes

    def _store(self, blocks: int | None, room_bytes: int) -> TieredStore:
        room = _UNLIMITED_BYTES if blocks is None else blocks * room_bytes
        return TieredStore(MemoryTier(room, self.policy))


def home_weights(
    written: KvSpecification, job: str, workers: Sequence[str], hosts: Sequence[str]
) -> dict[str, float]:
    """The hosts that keep blocks for others, with their weights.

    Raises:
        WorkloadError: one of them does not exist, or there are fewer than replicas.
    """
    homes = written.homes or dict.fromkeys(workers, 1.0)
    for home in homes:
        if home not in hosts:
            raise WorkloadError(
                f"job {job}: homes: there is no host {home!r}; hosts: {', '.join(hosts)}"
            )
    try:
        Placement(homes, replicas=written.replicas)
    except KVError as error:
        raise WorkloadError(f"job {job}: {error}") from None
    return homes


def with_switch_memory(topology: Topology, written: KvSpecification, design: str) -> Topology:
    """The topology with the switches' part of the memory, in equal shares, as content stores.

    Where memory is unlimited, what a switch of the topology has is all it has; in designs without
    caches on the way it has none.
    """
    share = _shares(written, design).switches
    if share and written.cache is None:
        return topology
    cache_bytes = int((written.cache or 0) * share / max(1, len(topology.switches)))
    nodes = {
        name: Switch(**(dict(node) | {"cache_bytes": cache_bytes}))
        if isinstance(node, Switch)
        else node
        for name, node in topology.nodes.items()
    }
    return Topology(name=topology.name, nodes=nodes, links=topology.links, events=topology.events)


def _shares(written: KvSpecification, design: str) -> MemoryShares:
    return MemoryShares.of_design(design, written.worker_share, written.switch_share)


def _blocks(written: KvSpecification, share: float) -> int | None:
    if written.cache is None:
        return None if share else 0
    return int(written.cache * share / written.block)
