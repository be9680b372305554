"""The pools of blocks that workers have opened, and which of them are members.

A pool belongs to a tenant. The switches serve it like a job from the time its first member joins
until its last member leaves. Their caches keep no blocks of a pool without members.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from innet.cluster.control.actions import Operation
from innet.cluster.control.placements import Placements
from innet.errors import ControlError
from innet.names import Name
from innet.node.messages import (
    MAX_WEIGHT,
    PoolMessage,
    PoolReport,
    WorkerReport,
    tenant_prefix,
)
from innet.security.keys import Key
from innet.security.pool_proofs import is_proven, pool_statement

_PUBLIC_KEY = re.compile("[0-9a-f]{64}")
_MAX_POOLS_OF_NODE = 256


@dataclass
class _Pool:
    key: Key
    members: dict[str, PoolReport] = field(default_factory=dict)
    """The memory that each node offers to the pool."""
    shares: dict[str, float] = field(default_factory=dict)
    """The share of each node's capacity that counts: less where others use its links."""

    @property
    def weight(self) -> int:
        """The largest that a member has requested."""
        return max(member.weight for member in self.members.values())

    @property
    def name(self) -> str:
        """The tenant's, as its members call it."""
        return next(iter(self.members.values())).name

    @property
    def replicas(self) -> int:
        """The number of replicas that all members agree on."""
        return next(iter(self.members.values())).replicas


class PoolRegistry:
    """The pools of all tenants."""

    def __init__(self, placements: Placements, network: str = "") -> None:
        """
        Args:
            placements: has the switches serve the pools.
            network: for which members prove that they have the pool's key
                (:func:`~innet.security.pool_proofs.pool_statement`); empty: nobody has to.
        """
        self._network = network
        self.share_of: Callable[[str], float] = lambda _node: 1.0
        """The free share of the links to a host that becomes a member."""
        self._placements = placements
        self._pools: dict[str, _Pool] = {}

    def open(self, node: str, part: PoolReport, incarnation: int = 0) -> Operation[None]:
        """``node`` joins a pool or changes its part; nothing changes where a switch refuses."""
        _require_usable(part)
        if not self._is_proven(node, incarnation, part):
            raise ControlError(
                f"{node} has not proven that it has the private key of tenant {part.tenant}. Open "
                "the pool with the tenant's secret, in the version of innet that the launcher has"
            )
        own = {tenant for tenant, pool in self._pools.items() if node in pool.members}
        if len(own - {part.tenant}) >= _MAX_POOLS_OF_NODE:
            raise ControlError(
                f"{node} is a member of {_MAX_POOLS_OF_NODE} pools already; leave one first"
            )
        pool = self._pools.get(part.tenant) or _Pool(part.key)
        if pool.key != part.key:
            raise ControlError(
                f"{node} has another key for tenant {part.tenant} than the pool's members "
                f"({', '.join(pool.members)}). Give all of them the same file with its secret"
            )
        _require_same_replicas(node, part, pool.members)
        before = pool.members.get(node)
        pool.members[node] = part
        if before is None:  # while it is a member, its blocks stay where they are
            pool.shares[node] = self.share_of(node)
        self._pools[part.tenant] = pool
        try:
            yield from self._placements.open_pools(self._messages())
        except ControlError:
            if before is None:
                yield from self.leave(node, part.tenant)
            else:
                pool.members[node] = before
                yield from self._placements.close_pools(self._messages())
            raise

    def leave(self, node: str, tenant: str) -> Operation[None]:
        """``node`` is no longer a member; switches no longer serve a pool without members."""
        if self._forget(node, tenant):
            yield from self._placements.close_pools(self._messages())

    def drop_cached(self, node: str, tenant: str) -> Operation[None]:
        """Empty the switches' caches of a pool's blocks, at the request of one of its processes.

        Raises:
            ControlError: ``node`` is not in the pool.
        """
        pool = self._pools.get(tenant)
        if pool is None or node not in pool.members:
            raise ControlError(
                f"{node} is not in the pool of {tenant}, so it cannot empty its caches: open the "
                "pool first"
            )
        yield from self._placements.drop_cached(tenant_prefix(tenant))

    def leave_all(self, node: str) -> Operation[None]:
        """The process on ``node`` has ended: remove its memberships."""
        left = [tenant for tenant in list(self._pools) if self._forget(node, tenant)]
        if left:
            yield from self._placements.close_pools(self._messages())

    def members(self, tenant: str) -> dict[str, int]:
        """The nodes that offer memory to the tenant's pool, with the bytes that count of each.

        Behind links that others filled when it joined, a member counts as a smaller one: it becomes
        the home of fewer blocks.
        """
        pool = self._pools.get(tenant)
        if pool is None:
            return {}
        return {
            node: max(int(part.capacity_bytes * pool.shares.get(node, 1.0)), 1)
            for node, part in pool.members.items()
            if part.capacity_bytes
        }

    def restore(self, reports: Iterable[WorkerReport]) -> None:
        """Take over the pools that workers report; the switches are brought up to date later.

        Members with another key than the first one's do not count.
        """
        for report in reports:
            for part in filter(_is_usable, report.pools[:_MAX_POOLS_OF_NODE]):
                if not self._is_proven(report.node, report.incarnation, part):
                    continue
                pool = self._pools.setdefault(part.tenant, _Pool(part.key))
                if report.failed is None and pool.key == part.key:
                    pool.members[report.node] = part
        self._pools = {tenant: pool for tenant, pool in self._pools.items() if pool.members}
        self._placements.restore_pools(self._messages())

    def describe(self) -> list[dict[str, Any]]:
        """The pools, for status displays."""
        return [
            {
                "tenant": tenant,
                "name": pool.name,
                "prefix": tenant_prefix(tenant),
                "weight": pool.weight,
                "replicas": pool.replicas,
                "members": {node: part.capacity_bytes for node, part in pool.members.items()},
            }
            for tenant, pool in self._pools.items()
        ]

    def _is_proven(self, node: str, incarnation: int, part: PoolReport) -> bool:
        if not self._network:
            return True
        statement = pool_statement(self._network, node, incarnation, part.tenant)
        return is_proven(part.key, part.proof, statement)

    def _forget(self, node: str, tenant: str) -> bool:
        pool = self._pools.get(tenant)
        if pool is None or pool.members.pop(node, None) is None:
            return False
        pool.shares.pop(node, None)
        if not pool.members:
            del self._pools[tenant]
        return True

    def _messages(self) -> list[PoolMessage]:
        return [
            PoolMessage(
                prefix=tenant_prefix(tenant),
                weight=pool.weight,
                hosts=tuple(pool.members),
                key=pool.key,
            )
            for tenant, pool in self._pools.items()
        ]


def _require_same_replicas(node: str, part: PoolReport, members: Mapping[str, PoolReport]) -> None:
    """Members with other replicas would look for blocks where others do not put them."""
    for other, theirs in members.items():
        if other != node and theirs.replicas != part.replicas:
            raise ControlError(
                f"{node} counts {part.replicas} replicas of a block, and {other} in the same pool "
                f"counts {theirs.replicas}. Give replicas={theirs.replicas}"
            )


def _is_public_key(key: Key) -> bool:
    """Whether switches can verify with this key: one that they refuse would fail all pools."""
    try:
        Name(key.name)
    except ValueError:
        return False
    is_finite = key.not_after is None or math.isfinite(key.not_after)
    return is_finite and _PUBLIC_KEY.fullmatch(key.secret) is not None


def _is_usable(part: PoolReport) -> bool:
    try:
        _require_usable(part)
    except ControlError:
        return False
    return True


def _require_usable(part: PoolReport) -> None:
    if not 1 <= part.weight <= MAX_WEIGHT:
        raise ControlError(f"a pool's weight is from 1 to {MAX_WEIGHT}, not {part.weight}")
    if part.key.signature != "ed25519":
        raise ControlError(
            f"the blocks of a pool are signed with Ed25519; tenant {part.tenant} has a key for "
            f"{part.key.signature}"
        )
    if not _is_public_key(part.key):
        raise ControlError(f"the key of tenant {part.tenant} is not a public Ed25519 key")
