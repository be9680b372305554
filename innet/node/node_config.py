"""The configuration file of one node process.

``innet.cluster.emulation.Network`` writes one as JSON for each node of a run; the node
process (a switch, or the library inside a worker) reads it with :meth:`NodeConfig.load`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, ValidationError

from innet.errors import EmulationError
from innet.validation_messages import StrictModel

if TYPE_CHECKING:  # a switch starts without topologies
    from innet.topology import Link

Mode = Literal["local", "netns", "cluster"]
"""How a run realises its links: memory and the emulator's port model, kernel namespaces, or UDP
between several machines."""

RUN_ID_VARIABLE = "INNET_RUN_ID"
"""Environment variable of every process of a run; clean-up finds strays by it."""
REGISTRY_VARIABLE = "INNET_REGISTRY"
"""Environment variable of every process of a run: tells the registry that the run is in."""
NODE_VARIABLE = "INNET_NODE"
"""Environment variable with the name of the node that a process runs on."""
NODE_CONFIG_VARIABLE = "INNET_NODE_CONFIG"
"""Environment variable with the path of the node's configuration file."""

IP_UDP_HEADER_BYTES = 28
"""IPv4 header without options and UDP header: what a link's MTU loses to them."""
IPV6_UDP_HEADER_BYTES = 48
"""Bytes of the IPv6 and UDP headers, without extension headers."""


class LinkShape(StrictModel):
    """The work of the emulator's own link model on one egress; the kernel does the rest.

    In ``local`` mode this is the whole link. In ``netns`` mode the kernel limits the rate and
    bounds the queue, so ``rate_bps`` and ``mark_bytes`` are ``None`` and ``queue_bytes`` is 0;
    a link that jitters, reorders, duplicates or corrupts packets has no such mode.
    """

    rate_bps: float | None = Field(gt=0, description="bits per second; None: not limited here")
    delay_s: float = Field(ge=0, description="one-way propagation delay in seconds")
    loss: float = Field(ge=0, le=1, description="probability that a packet is lost")
    queue_bytes: int = Field(ge=0, description="drop-tail bound of the queue; 0: no queue here")
    mark_bytes: int | None = Field(ge=0, description="queue depth that marks congestion; None: off")
    jitter_s: float = Field(default=0, ge=0, description="random delay on top, in seconds")
    reorder: float = Field(default=0, ge=0, le=1, description="probability of being held up")
    reorder_delay_s: float = Field(default=0, ge=0, description="for how long, in seconds")
    duplicate: float = Field(default=0, ge=0, le=1, description="probability of arriving twice")
    corrupt: float = Field(default=0, ge=0, le=1, description="probability that bits are flipped")

    @classmethod
    def of(cls, link: Link) -> Self:
        """All that a link of a topology does."""
        return cls(
            rate_bps=link.rate_bps,
            delay_s=link.delay_s,
            loss=link.loss,
            queue_bytes=link.queue_bytes,
            mark_bytes=link.mark_threshold_bytes,
            jitter_s=link.jitter_s,
            reorder=link.reorder,
            reorder_delay_s=link.reorder_delay_s,
            duplicate=link.duplicate,
            corrupt=link.corrupt,
        )

    def cut(self) -> Self:
        """The same link, on which every packet is lost."""
        return self.model_copy(update={"loss": 1.0})

    @property
    def is_cut(self) -> bool:
        """Whether every packet is lost."""
        return self.loss == 1

    @property
    def impaired(self) -> bool:
        """Whether the model does more to packets than to queue, delay and lose them."""
        return any((self.jitter_s, self.reorder, self.duplicate, self.corrupt))

    @property
    def shaped(self) -> bool:
        """Whether the model does anything to packets."""
        return self.rate_bps is not None or bool(self.delay_s or self.loss) or self.impaired


class UdpChannel(StrictModel):
    """A UDP socket, bound to the local address and connected to the peer, that the node opens."""

    local_address: str
    local_port: int = Field(ge=1, le=65535)
    peer_address: str
    peer_port: int = Field(ge=1, le=65535)

    @property
    def fds(self) -> tuple[()]:
        """The inherited descriptors: none."""
        return ()


class SocketChannel(StrictModel):
    """A datagram socket that the launcher or the machine's agent has connected to the other end.

    One of a pair of Unix sockets, which have no addresses, or a UDP socket between two machines.
    """

    fd: int = Field(description="inherited descriptor of the socket")
    inode: int = Field(description="the socket's, by which its descriptor is recognised")

    @property
    def fds(self) -> tuple[int]:
        """The inherited descriptors."""
        return (self.fd,)


class SharedMemoryChannel(StrictModel):
    """Memory that the processes at both ends of a link share; all descriptors are inherited."""

    name: str = Field(description="the memory's, by which its descriptor is recognised")
    end: Literal[0, 1] = Field(description="which of the two ends this one is")
    memory_fd: int
    own_event_fd: int = Field(description="eventfd that this end waits for")
    peer_event_fd: int = Field(description="eventfd that the other one waits for")

    @property
    def fds(self) -> tuple[int, int, int]:
        """The inherited descriptors."""
        return self.memory_fd, self.own_event_fd, self.peer_event_fd


Channel = UdpChannel | SocketChannel | SharedMemoryChannel


class FaceConfig(StrictModel):
    """One end of a link."""

    peer: str = Field(description="name of the neighbouring node")
    peer_kind: Literal["host", "switch"]
    channel: Channel = Field(description="what carries the packets")
    mtu_bytes: int = Field(
        gt=0, description="largest UDP payload: the link's MTU less the IPv4 and UDP headers"
    )
    queue_bytes: int = Field(
        gt=0, description="the link's egress queue, whether the kernel or the port model keeps it"
    )
    shape: LinkShape
    trusted: bool = Field(
        default=False,
        description="segments may go without MACs: the link is memory, and was launched without a "
        "shape, which would make it stand for one between machines. Both ends must agree, so a "
        "shape that it gets later changes nothing",
    )


class RouteConfig(StrictModel):
    """The next hop towards one other node, whose name prefix is ``/n/<node>``."""

    node: str
    face: int = Field(ge=0, description="index into NodeConfig.faces")


class NodeConfig(StrictModel):
    """Everything that a node process needs to know to start."""

    run_id: str
    node: str
    kind: Literal["host", "switch"]
    mode: Mode
    run_dir: Path
    faces: tuple[FaceConfig, ...]
    routes: tuple[RouteConfig, ...] = Field(description="one for every other node")
    slots: int = Field(
        ge=0,
        description="aggregation memory of a switch, in segments being summed at once; 0 for a "
        "host, whose own is a setting",
    )
    cache_bytes: int = Field(ge=0, description="size of the content store")
    cache_policy: str
    receive_credit_bytes: int = Field(
        default=0, ge=0, description="bytes of answers that a host waits for at once; 0: no limit"
    )
    receive_rate_bps: float = Field(
        default=0,
        ge=0,
        description="rate of a host's links, which that credit grows at; 0: it is measured",
    )
    control_socket: Path = Field(description="Unix socket path that the node answers control on")
    ndn_socket: Path = Field(description="Unix socket path that NDN programs connect to")
    seed: int = Field(ge=0, description="seeds everything random in the node's port model")
    processors: tuple[int, ...] = Field(
        default=(),
        description="on which its threads run, whatever binds the thread that starts them; empty: "
        "on those of that thread",
    )
    ip_address: str | None = Field(
        description="address at which foreign programs reach it: a host's in netns mode, its "
        "machine's in cluster mode; None otherwise"
    )
    host: str | None = Field(
        default=None, description="of one of a host's several workers, the node of that host"
    )
    workers: tuple[str, ...] = Field(
        default=(), description="of a host with several workers, their nodes in rank order"
    )

    @classmethod
    def load(cls, path: Path) -> NodeConfig:
        """Read the configuration file at ``path``."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except OSError as error:
            raise EmulationError(
                f"cannot read the node configuration {path}: {error.strerror}. "
                "Has the run ended? `innet status` lists the live ones."
            ) from error
        except ValidationError as error:
            raise EmulationError(
                f"{path} is not a node configuration of this version of innet: {error}. "
                "Start the run again with `innet up`."
            ) from error
