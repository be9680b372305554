"""The parts of a topology: hosts, switches, and the links between their ports.

They are immutable, and each is valid by itself. :mod:`innet.topology.model` makes networks of them.
"""

from __future__ import annotations

from ipaddress import ip_network
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)

from innet.errors import TopologyError
from innet.topology.names import MachineChoice, NodeName, PortName
from innet.validation_messages import first_message

MIN_RATE_BPS: Final = 1e3
MAX_RATE_BPS: Final = 1e13
MAX_DELAY_S: Final = 60.0
MAX_HOLD_UP_S: Final = 86_400.0
MAX_LOSS: Final = 0.99
MIN_MTU_BYTES: Final = 576
MAX_MTU_BYTES: Final = 65000
MAX_BYTES: Final = 2**40
MAX_SLOTS: Final = 2**24
MAX_WORKERS: Final = 256

RateBps = Annotated[float, Field(ge=MIN_RATE_BPS, le=MAX_RATE_BPS)]
DelayS = Annotated[float, Field(ge=0, le=MAX_DELAY_S)]
HoldUpS = Annotated[float, Field(ge=0, le=MAX_HOLD_UP_S)]
Loss = Annotated[float, Field(ge=0, le=MAX_LOSS)]
Probability = Annotated[float, Field(ge=0, le=1)]
MtuBytes = Annotated[int, Field(ge=MIN_MTU_BYTES, le=MAX_MTU_BYTES)]
QueueBytes = Annotated[int, Field(ge=MIN_MTU_BYTES, le=MAX_BYTES)]
CacheBytes = Annotated[int, Field(ge=0, le=MAX_BYTES)]
Slots = Annotated[int, Field(ge=0, le=MAX_SLOTS)]
Workers = Annotated[int, Field(ge=1, le=MAX_WORKERS)]
CachePolicy = Literal["s3fifo", "lru"]


def subnet_text(value: str) -> str:
    """An IP network as it is written: ``10.1.0.0/16``.

    Raises:
        ValueError: it is none, or names a host in it.
    """
    return str(ip_network(value))


Subnet = Annotated[str, AfterValidator(subnet_text)]


class Part(BaseModel):
    """Base of the parts of a topology: frozen, and failing with :class:`TopologyError` only."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="wrap")
    @classmethod
    def _raise_topology_error(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(data)
        except ValidationError as error:
            raise TopologyError(f"{cls.__name__}: {first_message(error)}") from None


class Host(Part):
    """A machine that runs one worker, or a worker of a machine that runs several.

    Attributes:
        name: unique among all nodes.
        cache_bytes: content store of the host's own node; 0 caches nothing.
        rank: rank in the job, or ``None`` to number all hosts in the natural order of their names.
        workers: how many ranks it runs. A topology has other nodes in place of a host with several
            (:mod:`innet.topology.workers`).
        memory_rate_bps: of each worker's link to the memory of the host, such as PCIe; ``None``: as
            fast as the machine's memory.
        machine: that it is on in cluster mode; ``None``: one of its own name; labels: one of its
            own name, which has these labels.
    """

    name: NodeName
    kind: Literal["host"] = "host"
    cache_bytes: CacheBytes = 32 * 2**20
    rank: Annotated[int, Field(ge=0)] | None = None
    workers: Workers = 1
    memory_rate_bps: RateBps | None = None
    machine: MachineChoice | None = None

    @property
    def has_worker_nodes(self) -> bool:
        """Whether a topology has a node for each worker, beside that of the host."""
        return self.workers > 1 or self.memory_rate_bps is not None


class Switch(Part):
    """A node that forwards, and aggregates and caches as far as its memory goes.

    Attributes:
        name: unique among all nodes.
        slots: reductions that can be in progress at once; 0 makes it a plain forwarder.
        cache_bytes: content store; 0 caches nothing.
        cache_policy: which object leaves the content store when it is full.
        machine: that it is on in cluster mode; ``None``: the launcher's; labels: one of its own
            name, which has these labels.
    """

    name: NodeName
    kind: Literal["switch"] = "switch"
    slots: Slots = 4096
    cache_bytes: CacheBytes = 64 * 2**20
    cache_policy: CachePolicy = "s3fifo"
    machine: MachineChoice | None = None


Node = Host | Switch


class Interface(Part):
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


class Link(Part):
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
        subnet: of the addresses that both ends use in cluster mode, such as ``10.1.0.0/16``;
            ``None``: those at which the machines have joined.
        in_memory: whether it joins a worker to the node of its host, through memory of one machine.
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
    subnet: Subnet | None = None
    in_memory: bool = False

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
