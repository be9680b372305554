"""The designs that a replay compares: how each divides memory and requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from innet.errors import KVError, WorkloadError
from innet.kv.eviction import DEFAULT_POLICY, POLICIES, PolicyName
from innet.kv.pool import MemoryTier, PoolSettings, TieredStore
from innet.kv.pool.peers import Placement
from innet.kv.pool.settings import PutTiming
from innet.kv.prefill import PrefillCost
from innet.lab.traces import PromptRequest
from innet.topology import Switch, Topology

if TYPE_CHECKING:
    from innet.lab.workload.document import KvSpecification


BALANCED: Final = "balanced"
NETWORK: Final = "network"
HOME: Final = "home"
LOCAL: Final = "local"

DESIGNS: Final = {
    HOME: "home: home nodes alone",
    BALANCED: "balanced: at the producer or at the home, whichever keeps a block longer",
    NETWORK: "network: home nodes with in-network caches",
    LOCAL: "local: no sharing between workers",
}
"""Designs by name, with their titles."""


_POLICY_OPTION: Final = "policy="

_USUAL_SHARES: Final = {BALANCED: (0.7, 0.02), NETWORK: (0.7, 0.02), HOME: (0.05, 0.0)}
"""Shares of workers and switches (docs/kv-replay.md). With ``balanced`` and ``network``,
worker and home of a host have one store."""

_PUTS: Final[dict[str, PutTiming]] = {BALANCED: "balanced", NETWORK: "when-asked"}
"""When blocks move to their homes; in other designs at once."""


@dataclass(frozen=True)
class Design:
    """A design as users write it: ``network``, or ``network:policy=s3fifo``.

    Attributes:
        name: one of :data:`DESIGNS`.
        policy: of workers and homes; ``None``: the job's policy, or the pool's default.
    """

    name: str
    policy: PolicyName | None = None

    @classmethod
    def parse(cls, text: str) -> Design:
        """The design that ``text`` names.

        >>> Design.parse("home:policy=lfu")
        Design(name='home', policy='lfu')
        """
        name, colon, option = text.partition(":")
        if name not in DESIGNS:
            raise KVError(f"there is no design {name!r}; designs: {', '.join(DESIGNS)}")
        if not colon:
            return cls(name)
        if not option.startswith(_POLICY_OPTION):
            raise KVError(f"{text}: unknown option {option!r}; a design has the option policy=NAME")
        policy = option.removeprefix(_POLICY_OPTION)
        if policy not in POLICIES:
            raise KVError(f"there is no policy {policy!r}; policies: {', '.join(POLICIES)}")
        return cls(name, policy)


@dataclass(frozen=True)
class MemoryShares:
    """How the memory of a cluster is divided; the shares add up to 1.

    Attributes:
        workers: for blocks that each worker itself uses.
        switches: for the caches on the path.
        homes: for blocks that other nodes request.
    """

    workers: float
    switches: float
    homes: float

    @classmethod
    def of_design(
        cls, design: str, workers: float | None = None, switches: float | None = None
    ) -> MemoryShares:
        """The shares in ``design``; by default those with the most hits.

        With ``network``, blocks that nobody else requests stay at their producer, so most memory is
        the workers'; with ``home`` all blocks are at homes.

        >>> MemoryShares.of_design("home", switches=0.25)
        MemoryShares(workers=0.05, switches=0.0, homes=0.95)
        """
        if design == LOCAL:
            return cls(1.0, 0.0, 0.0)
        usual_workers, usual_switches = _USUAL_SHARES[design]
        workers = usual_workers if workers is None else workers
        if design == HOME:
            switches = 0.0
        switches = usual_switches if switches is None else switches
        if workers + switches > 1:
            raise KVError(
                f"the shares of workers ({workers:g}) and switches ({switches:g}) add up to more "
                "than all memory; lower one of them"
            )
        return cls(workers, switches, 1.0 - workers - switches)


Assignment = Literal["round-robin", "prefix"]


def requests_of(
    rank: int, workers: int, requests: Sequence[PromptRequest], assign: Assignment
) -> Iterator[tuple[int, PromptRequest]]:
    """The requests of one of several workers, with their numbers in the trace.

    >>> prompt = Request(0.0, 512, 1, (b"a",))
    >>> [number for number, _ in requests_of(1, 2, [prompt] * 5, "round-robin")]
    [1, 3]
    """
    for number, request in enumerate(requests):
        if assign == "round-robin":
            chosen = number % workers
        else:
            # The first block is often a system prompt, with which all requests begin.
            chosen = int.from_bytes(request.blocks[:2][-1], "big") % workers
        if chosen == rank:
            yield number, request


_UNLIMITED_BYTES = 1 << 50
_WEIGHT_BYTES = 1 << 40
"""Offered by a home of weight 1 where memory is unlimited."""
_REQUESTS_AT_ONCE = 8
"""Requests of one worker whose windows fit into the pool's; more requests share it."""


@dataclass(frozen=True)
class ReplayPlan:
    """How a replay divides memory and fetches blocks; worker processes receive it as JSON.

    Attributes:
        design: one of :data:`DESIGNS`.
        policy: eviction policy of workers and homes.
        block_bytes: of each block.
        replicas: homes of a block.
        window: blocks that a request fetches at once.
        deadline_s: of fetching a block; after it, the worker computes the block.
        put_timeout_s: deadline of a put at a home.
        time_scale: factor of the trace's times.
        prefill: cost of computing.
        worker_blocks: capacity of each worker; ``None``: unlimited.
        home_blocks: capacity of each home for other hosts' blocks; ``None``: unlimited.
        home_weights: of the homes.
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

    @classmethod
    def of(
        cls,
        written: KvSpecification,
        design: Design,
        workers: int,
        homes: Mapping[str, float],
        put_timeout_s: float,
    ) -> ReplayPlan:
        """The plan of a job.

        Args:
            written: the job.
            design: of this run.
            workers: their number.
            homes: hosts that keep blocks for other hosts, with their weights.
            put_timeout_s: deadline of a put at a home.
        """
        shares = _shares(written, design.name)
        homes = {} if design.name == LOCAL else homes
        each = shares.homes / sum(homes.values()) if homes else 0.0
        return cls(
            design=design.name,
            policy=design.policy or written.policy or DEFAULT_POLICY,
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
        )

    @property
    def shares_memory(self) -> bool:
        """Whether a host has one store for its own blocks and those homed at it."""
        return self.design in _PUTS

    @property
    def pool_settings(self) -> PoolSettings:
        """The settings of every host's pool."""
        return PoolSettings(
            replicas=self.replicas,
            window=_REQUESTS_AT_ONCE * self.window,
            timeout_s=self.deadline_s,
            put_timeout_s=self.put_timeout_s,
            puts=_PUTS.get(self.design, "at-once"),
        )

    def stores(self, host: str, room_bytes: int) -> tuple[TieredStore, TieredStore]:
        """The stores of ``host`` for its own blocks and for other hosts' blocks; may be one store.

        Args:
            host: a member.
            room_bytes: memory of a block in a tier.
        """
        if self.shares_memory:
            store = self._store(self.shared_blocks(host), room_bytes)
            return store, store
        offered_blocks = self.home_blocks.get(host, 0)
        return self._store(self.worker_blocks, room_bytes), self._store(offered_blocks, room_bytes)

    def shared_blocks(self, host: str) -> int | None:
        """Capacity of the single store of ``host``; ``None``: unlimited."""
        home_blocks = self.home_blocks.get(host, 0)
        if self.worker_blocks is None or home_blocks is None:
            return None
        return self.worker_blocks + home_blocks

    def offered_bytes(self, host: str) -> int:
        """The announced capacity of ``host``, which determines its share of the blocks."""
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
    """The hosts that keep blocks for other hosts, with their weights."""
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
    """The topology with the switches' share of the memory in their content stores.

    Where memory is unlimited, switches keep the topology's content stores. In designs without
    caches on the path they have none.
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
