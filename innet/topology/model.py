"""The model of a topology: hosts, switches, and the links between their ports.

Everything here is immutable and already valid: a :class:`Topology` that exists is connected, has
hosts, and uses each port once. Files, generators and importers only differ in how they get here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, TypedDict, Unpack

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)

from innet.errors import TopologyError
from innet.topology.events import TopologyEvent
from innet.topology.names import NodeName, PortName, natural_key
from innet.topology.structure import structural_problems
from innet.validation_messages import first_message

if TYPE_CHECKING:
    import networkx as nx

MIN_RATE_BPS: Final = 1e3
MAX_RATE_BPS: Final = 1e13
MAX_DELAY_S: Final = 60.0
MAX_HOLD_UP_S: Final = 86_400.0
MAX_LOSS: Final = 0.99
MIN_MTU_BYTES: Final = 576
MAX_MTU_BYTES: Final = 65000
MAX_BYTES: Final = 2**40
MAX_SLOTS: Final = 2**24

RateBps = Annotated[float, Field(ge=MIN_RATE_BPS, le=MAX_RATE_BPS)]
DelayS = Annotated[float, Field(ge=0, le=MAX_DELAY_S)]
HoldUpS = Annotated[float, Field(ge=0, le=MAX_HOLD_UP_S)]
Loss = Annotated[float, Field(ge=0, le=MAX_LOSS)]
Probability = Annotated[float, Field(ge=0, le=1)]
MtuBytes = Annotated[int, Field(ge=MIN_MTU_BYTES, le=MAX_MTU_BYTES)]
QueueBytes = Annotated[int, Field(ge=MIN_MTU_BYTES, le=MAX_BYTES)]
CacheBytes = Annotated[int, Field(ge=0, le=MAX_BYTES)]
Slots = Annotated[int, Field(ge=0, le=MAX_SLOTS)]
CachePolicy = Literal["s3fifo", "lru"]


class _Part(BaseModel):
    """Base of the parts of a topology: frozen, and failing with :class:`TopologyError` only."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="wrap")
    @classmethod
    def _raise_topology_error(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(data)
        except ValidationError as error:
            raise TopologyError(f"{cls.__name__}: {first_message(error)}") from None


class Host(_Part):
    """A machine that runs one worker.

    Attributes:
        name: unique among all nodes.
        cache_bytes: content store of the host's own node; 0 caches nothing.
        rank: rank in the job, or ``None`` to number all hosts in the natural order of their names.
    """

    name: NodeName
    kind: Literal["host"] = "host"
    cache_bytes: CacheBytes = 32 * 2**20
    rank: Annotated[int, Field(ge=0)] | None = None


class Switch(_Part):
    """A node that forwards, and aggregates and caches as far as its memory goes.

    Attributes:
        name: unique among all nodes.
        slots: reductions that can be in progress at once; 0 makes it a plain forwarder.
        cache_bytes: content store; 0 caches nothing.
        cache_policy: which object leaves the content store when it is full.
    """

    name: NodeName
    kind: Literal["switch"] = "switch"
    slots: Slots = 4096
    cache_bytes: CacheBytes = 64 * 2**20
    cache_policy: CachePolicy = "s3fifo"


Node = Host | Switch


class Interface(_Part):
    """One end of a link: a port of a node, written ``h0:eth0``."""

    node: NodeName
    port: PortName

    @classmethod
    def parse(cls, text: str) -> Interface:
        """Read ``node:port``."""
        node, colon, port = text.partition(":")
        if not colon:
            raise TopologyError(f'expected "node:port", such as "h0:eth0", found {text!r}')
        return cls(node=node, port=port)

    def __str__(self) -> str:
        return f"{self.node}:{self.port}"


class Link(_Part):
    """A full-duplex link; every property holds for each direction on its own.

    Attributes:
        rate_bps: bits per second, ``None`` for as fast as the machine goes.
        loss: probability that a packet is lost.
        queue_bytes: size of the queue before the link; packets beyond it are dropped.
        mtu_bytes: largest packet.
        mark_bytes: queue depth above which packets carry a congestion mark; ``None`` for half of
            the queue, whatever its size. See :attr:`mark_threshold_bytes`.
        jitter_s: a random delay up to this on top of ``delay_s``; order is kept.
        reorder: probability that a packet is held up for ``reorder_delay_s`` and may be overtaken.
        reorder_delay_s: for how long.
        duplicate: probability that a packet arrives twice.
        corrupt: probability that one to three bits of a packet are flipped.
    """

    a: Interface
    b: Interface
    rate_bps: RateBps | None = None
    delay_s: DelayS = 0.0
    loss: Loss = 0.0
    queue_bytes: QueueBytes = 512 * 2**10
    mtu_bytes: MtuBytes = 9000
    mark_bytes: Annotated[int, Field(ge=0, le=MAX_BYTES)] | None = None
    jitter_s: DelayS = 0.0
    reorder: Probability = 0.0
    reorder_delay_s: HoldUpS = 0.0
    duplicate: Probability = 0.0
    corrupt: Loss = 0.0

    @property
    def takes_time(self) -> bool:
        """Whether a packet takes any time on the link, as it is described."""
        return self.rate_bps is not None or self.delay_s > 0

    @property
    def is_shaped(self) -> bool:
        """Whether it limits, delays, loses or alters packets."""
        return self.takes_time or self.loss > 0 or self.impaired

    @property
    def given(self) -> dict[str, Any]:
        """The properties that were set, without the defaults."""
        return {name: getattr(self, name) for name in self.model_fields_set}

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if self.queue_bytes < self.mtu_bytes:
            raise TopologyError(
                f"link {self}: expected a queue of at least one packet "
                f"(mtu {self.mtu_bytes} bytes), found {self.queue_bytes} bytes"
            )
        if self.mark_threshold_bytes > self.queue_bytes:
            raise TopologyError(
                f"link {self}: expected a mark threshold within the queue "
                f"of {self.queue_bytes} bytes, found {self.mark_bytes} bytes"
            )
        return self

    @model_validator(mode="after")
    def _check_reordering(self) -> Self:
        if self.reorder and not self.reorder_delay_s:
            raise TopologyError(
                f"link {self}: packets that are reordered must be held up for some time; "
                "set reorder-delay beside reorder, such as 5ms"
            )
        return self

    @property
    def impaired(self) -> bool:
        """Whether it jitters, reorders, duplicates or corrupts packets."""
        return any((self.jitter_s, self.reorder, self.duplicate, self.corrupt))

    @property
    def mark_threshold_bytes(self) -> int:
        """Queue depth in bytes above which packets are marked."""
        return self.queue_bytes // 2 if self.mark_bytes is None else self.mark_bytes

    @property
    def nodes(self) -> tuple[str, str]:
        """Names of the two nodes, ``a`` first."""
        return (self.a.node, self.b.node)

    def end_at(self, node: str) -> Interface:
        """The end of this link at ``node``."""
        if node not in self.nodes:
            raise TopologyError(f"link {self} does not touch node {node!r}")
        return self.a if self.a.node == node else self.b

    def end_opposite(self, node: str) -> Interface:
        """The end of this link that is not at ``node``."""
        return self.b if self.end_at(node) is self.a else self.a

    def __str__(self) -> str:
        return f"{self.a} -- {self.b}"


class Overrides(TypedDict, total=False):
    """Settings that replace those of every link (and ``slots``, of every switch)."""

    rate_bps: float | None
    delay_s: float
    loss: float
    queue_bytes: int
    mtu_bytes: int
    mark_bytes: int | None
    jitter_s: float
    reorder: float
    reorder_delay_s: float
    duplicate: float
    corrupt: float
    slots: int


class Topology(_Part):
    """A named, connected network of hosts and switches.

    Attributes:
        name: for directories, reports and titles.
        nodes: every node by its name.
        links: every link, in the order of the file.
        events: what happens to them in a simulation.
    """

    name: Annotated[NodeName, Field(description="name of the topology")]
    nodes: Mapping[str, Annotated[Node, Field(discriminator="kind")]]
    links: tuple[Link, ...] = ()
    events: tuple[TopologyEvent, ...] = ()

    @model_validator(mode="after")
    def _check_structure(self) -> Self:
        for problem in structural_problems(self.nodes, self.links):
            raise TopologyError(problem.message)
        return self

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """Names of the hosts in the order of their ranks."""
        hosts = [node for node in self.nodes.values() if isinstance(node, Host)]
        hosts.sort(key=lambda h: (-1 if h.rank is None else h.rank, natural_key(h.name)))
        return tuple(host.name for host in hosts)

    @cached_property
    def switches(self) -> tuple[str, ...]:
        """Names of the switches in natural order."""
        names = (node.name for node in self.nodes.values() if isinstance(node, Switch))
        return tuple(sorted(names, key=natural_key))

    @cached_property
    def links_of(self) -> Mapping[str, Mapping[str, Link]]:
        """For each node, its links by the neighbour that they lead to."""
        links: dict[str, dict[str, Link]] = {name: {} for name in self.nodes}
        for link in self.links:
            u, v = link.nodes
            links[u][v] = links[v][u] = link
        return links

    def graph(self) -> nx.Graph[str]:
        """The frozen graph of node names; node attribute ``node``, edge attribute ``link``.

        Copy it (``graph().copy()``) to get one that can be changed.
        """
        return self._graph

    def link_between(self, u: str, v: str) -> Link:
        """The link that joins two nodes, in either order."""
        link = self.links_of.get(u, {}).get(v)
        if link is None:
            raise TopologyError(f"topology {self.name!r} has no link between {u!r} and {v!r}")
        return link

    def with_overrides(self, **overrides: Unpack[Overrides]) -> Topology:
        """A copy in which the given settings replace those of every link and every switch.

        ``rate_bps=None`` takes the limit away; a setting that is not named stays as it is.

        Example:
            >>> load_topology("star8").with_overrides(rate_bps=200e6, loss=0.01)
        """
        settings: dict[str, Any] = dict(overrides)
        slots = {"slots": settings.pop("slots")} if "slots" in settings else {}
        nodes = {
            name: Switch(**(dict(node) | slots)) if isinstance(node, Switch) else node
            for name, node in self.nodes.items()
        }
        links = tuple(Link(**(link.given | settings)) for link in self.links)
        return Topology(name=self.name, nodes=nodes, links=links, events=self.events)

    @property
    def slowest_link_bps(self) -> float:
        """Bits per second of the slowest link; infinity when none has a rate."""
        return min((link.rate_bps or math.inf for link in self.links), default=math.inf)

    def with_defaults(self, *, rate_bps: float, delay_s: float) -> Topology:
        """A copy in which links with neither rate nor delay have these."""
        given = {"rate_bps": rate_bps, "delay_s": delay_s}
        links = tuple(
            link if link.takes_time else Link(**(link.given | given)) for link in self.links
        )
        return Topology(name=self.name, nodes=self.nodes, links=links, events=self.events)

    @cached_property
    def _graph(self) -> nx.Graph[str]:
        import networkx as nx  # imported only where a graph is needed

        graph: nx.Graph[str] = nx.Graph(name=self.name)
        for name, node in self.nodes.items():
            graph.add_node(name, node=node)
        for link in self.links:
            graph.add_edge(*link.nodes, link=link)
        frozen: nx.Graph[str] = nx.freeze(graph)
        return frozen
