"""A real node whose neighbours are sockets of the test, which send it whatever they like."""

from __future__ import annotations

import itertools
import select
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

from scapy.packet import Packet

from innet._native import _core
from innet.observe.packets.layers import data, interest
from innet.observe.packets.outline import Outline
from innet.security.key_dealer import deal_keys
from innet.settings import Signature

Answers = Mapping[str, bytes]
"""Contents by name."""

_TIMEOUT_S = 20.0
_TIMES = 20
"""A question is asked before nobody is thought to be there."""
_ADDRESS = "127.0.0.1"


class Neighbour:
    """Somebody at the other end of a link or of a socket of the node."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def send(self, *packets: Packet | bytes) -> None:
        """Each packet in a datagram of its own."""
        for packet in packets:
            self._socket.send(bytes(packet))

    def receive(self, kind: str) -> tuple[Outline, bytes]:
        """The next packet of that kind; hellos and others on the way are passed over."""
        came = self.receive_within(_TIMEOUT_S, kind)
        assert came is not None, f"no {kind} came"
        return came

    def receive_within(self, timeout_s: float, kind: str) -> tuple[Outline, bytes] | None:
        """The same; ``None`` when nothing comes for so long."""
        while (packet := self._next(timeout_s)) is not None:
            outline = Outline.of(packet)
            if outline.kind == kind:
                return outline, packet
        return None

    def fileno(self) -> int:
        """A descriptor to wait for."""
        return self._socket.fileno()

    def heard(self) -> list[Outline]:
        """What has come and not been received yet, but for hellos."""
        packets = iter(lambda: self._next(0), None)
        return [o for o in map(Outline.of, packets) if o.kind != "hello"]

    def _next(self, timeout_s: float) -> bytes | None:
        if not select.select([self._socket], [], [], timeout_s)[0]:
            return None
        return self._socket.recv(1 << 16)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


class NodeAmongStrangers:
    """A node, its neighbours, and what it counts."""

    def __init__(
        self,
        neighbours: int,
        configure: Callable[[Any], None] = lambda _: None,
        signature: Signature = "hmac",
    ) -> None:
        """``configure`` may change the node's settings; with ``digest``, neighbours need no key."""
        settings = _core.NodeSettings()
        settings.own_name = "/n/s0"
        configure(settings)
        keys = deal_keys(["s0"], signature)["s0"]
        self.node = _core.Node(settings, keys.signing_key(), keys.trusted_keys())
        self.neighbours = [Neighbour(linked_socket(self.node)) for _ in range(neighbours)]
        """By their faces: each is at the end of a link."""
        self.programs: list[Neighbour] = []
        self.node.start()
        self._nonces = itertools.count(1)

    def add_programs(self, count: int) -> list[Neighbour]:
        """NDN programs, each of which speaks to the node's UDP port from its own."""
        port = int(self.node.listen(f"udp4://{_ADDRESS}:0").rsplit(":", 1)[1])
        for _ in range(count):
            program = _bound_socket()
            program.connect((_ADDRESS, port))
            self.programs.append(Neighbour(program))
        return self.programs

    def counter(self, name: str) -> int:
        """One of the node's counters."""
        return int(self.node.status()["node"][name])

    def counted(self, name: str, by: Neighbour) -> int:
        """A counter once the node has seen to all that neighbour ``by`` has sent.

        Datagrams of one socket are taken in order: who has the answer to the last knows that.
        """
        for _ in range(_TIMES):
            by.send(interest("/nowhere", nonce=next(self._nonces)))
            # Whoever sends much that is rejected is not heard for a moment.
            while came := by.receive_within(_TIMEOUT_S / _TIMES, "nack"):
                if came[0].uri == "/nowhere":
                    return self.counter(name)
        raise AssertionError("a question was not answered")

    def answer_all(self, client: Neighbour, producer: Neighbour, asked: Answers) -> set[str]:
        """Let ``client`` ask for all names, and ``producer`` give what the node asks it for.

        Returns:
            The names that the client got; the others were refused.
        """
        got: set[str] = set()
        for names in _batches(list(asked)):
            client.send(*(interest(name, nonce=next(self._nonces)) for name in names))
            missing = set(names)
            while missing:
                ready = select.select([client, producer], [], [], _TIMEOUT_S)[0]
                assert ready, f"no answer came for {missing}"
                wanted = {o.uri for o in producer.heard()} & asked.keys()
                producer.send(*(data(name, asked[name]) for name in wanted))
                heard = client.heard()
                missing -= {o.uri for o in heard}
                got |= {o.uri for o in heard if o.kind == "data"}
        return got

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.node.stop("the test is over")
        for neighbour in [*self.neighbours, *self.programs]:
            neighbour.close()


def linked_socket(node: _core.Node) -> socket.socket:
    """The other end of a new UDP link of a node, which is not started yet."""
    end, neighbour = _bound_socket(), _bound_socket()
    _, port = end.getsockname()
    _, peer_port = neighbour.getsockname()
    node.add_link(
        local_address=_ADDRESS,
        local_port=port,
        peer_address=_ADDRESS,
        peer_port=peer_port,
        fd=end.detach(),
    )
    neighbour.connect((_ADDRESS, port))
    return neighbour


def _bound_socket() -> socket.socket:
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    opened.bind((_ADDRESS, 0))
    return opened


def _batches(names: Sequence[str], size: int = 50) -> Iterator[Sequence[str]]:
    """So few at once that no socket's buffer runs over."""
    return (names[at : at + size] for at in range(0, len(names), size))
