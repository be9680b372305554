"""The requests that a launcher sends to the agent of a machine, and their replies.

They are ordinary requests (:mod:`innet.cluster.requests`) over the relayed socket of the agent, in
this order: ``open``, ``connect``, ``configure``; then ``write``, ``start``, ``signal``, ``watch``,
``kill`` and ``port`` as needed.
"""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field

from innet.cluster.emulation.machine_fabric import SocketName
from innet.cluster.emulation.processes import DEFAULT_GRACE_S, MOST_GRACE_S
from innet.validation_messages import StrictModel, at_most


def _numeric(address: str) -> str:
    """One address has one text: another spelling would pass for another machine's."""
    return str(ip_address(address))


def _absolute(path: Path) -> Path:
    if not path.is_absolute() or not str(path).isprintable():
        raise ValueError(f"expected an absolute path, found {path}")
    return path


_MOST_LINKS = 1 << 16
"""Of a machine, to others."""

_IpAddress = Annotated[str, Field(max_length=64), AfterValidator(_numeric)]
_Port = Annotated[int, Field(ge=1, le=65535)]
_DatagramBytes = Annotated[int, Field(ge=512, le=65507)]
"""Every path of IPv4 has datagrams of 548 bytes."""


def agent_socket_name(machine: str) -> str:
    """The socket of a machine's agent, in the directory of its run and in the launcher's."""
    return f"{machine}.agent"


class OpenRequest(StrictModel):
    """``open``: make the links of the machine's nodes.

    Attributes:
        topology: as JSON.
        shared_memory: within the machine; ``False``: Unix sockets.
    """

    topology: str
    seed: int
    shared_memory: bool


class OpenReply(StrictModel):
    """The facts of a machine that the launcher needs.

    Attributes:
        address: at which other machines reach it: from which it reaches the launcher.
        sockets: of the links to other machines, by the links' numbers.
        run_dir: of the machine's own run.
        processors: that its processes may use.
    """

    address: _IpAddress
    sockets: Annotated[dict[int, tuple[_IpAddress, _Port]], at_most(_MOST_LINKS)]
    run_dir: Annotated[Path, AfterValidator(_absolute)]
    processors: int = Field(ge=1, le=1 << 16)


class ConnectRequest(StrictModel):
    """``connect``: connect links to their other ends; the reply is a :class:`ConnectReply`.

    Attributes:
        peers: the socket at the other end of each link, by the link's number.
        probes: whether to find out how large datagrams may be. Nodes must not run.
    """

    peers: dict[int, SocketName]
    probes: bool = True


class ConnectReply(StrictModel):
    """The largest datagram that arrived over each link; 0: none arrived. Empty without probes."""

    received_bytes: Annotated[dict[int, Literal[0] | _DatagramBytes], at_most(_MOST_LINKS)] = Field(
        default_factory=dict
    )


class PortReply(StrictModel):
    """The reply to ``port``."""

    port: _Port


class ConfigureRequest(StrictModel):
    """``configure``: write the nodes' configurations; then processes can start.

    Attributes:
        datagram_bytes: the largest datagram of each link between machines, by the link's number.
    """

    datagram_bytes: dict[int, int]


class RunFile(StrictModel):
    """A file of the run directory, which only the user can read."""

    name: str
    content: str


class WriteRequest(StrictModel):
    """``write``: write files into the machine's run directory."""

    files: tuple[RunFile, ...]


class StartRequest(StrictModel):
    """``start``: start a process, and follow it until it has ended.

    Before its reply, the agent sends a :class:`Started`, and a :class:`Line` for each line that the
    process prints. A client that disconnects ends the process.

    Attributes:
        argv: ``python`` is the agent's own interpreter.
        environment: added to the agent's.
        directory: working directory; ``None``: the agent's.
        grace_s: between SIGTERM and SIGKILL.
    """

    label: str
    node: str
    argv: tuple[str, ...]
    environment: dict[str, str]
    directory: Path | None = None
    grace_s: float = Field(default=DEFAULT_GRACE_S, ge=0, le=MOST_GRACE_S)


class Started(StrictModel):
    """The process runs."""

    pid: int = Field(gt=0, le=1 << 22)
    start_ticks: int = Field(ge=0, lt=1 << 63)


class Line(StrictModel):
    """A line that the process printed."""

    line: str


class StartReply(StrictModel):
    """How the process ended: its exit code, or the negative number of the signal."""

    returncode: int = Field(ge=-64, le=255)


class SignalRequest(StrictModel):
    """``signal``: signal a process that ``start`` has started, if it runs."""

    label: str
    signum: int


def parameters(message: BaseModel) -> dict[str, Any]:
    """A message as the parameters of a request."""
    return message.model_dump(mode="json")
