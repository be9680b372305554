"""Reads the status of many nodes at once, over connections that it keeps."""

from __future__ import annotations

import contextlib
import math
import select
import socket
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from innet.errors import ControlError
from innet.node.node_status import MalformedStatus
from innet.node.requests import ControlRequest, no_answer, result_of
from innet.printable import one_line

_METHOD: Final = "status"
_AT_ONCE = 128
"""Connections that are open at the same time, and that are kept."""
_RECEIVE_BYTES = 1 << 18
_MOST_ANSWER_BYTES = 16 << 20
_MOST_UNREAD_BYTES = 128 << 20
"""Of all answers that have not ended: a node that sends without an end is taken for malformed."""
_PHASE_S = 0.25
"""A node that takes longer does not hold up those of the next phase."""


@dataclass(frozen=True)
class NodeReadings:
    """The answers of nodes.

    Attributes:
        nodes: by name, the status.
        silent: by name, why there is none.
        malformed: of the silent ones, those that answered something else.
        read_at: by name, the times (monotonic) between which the node read its counters.
    """

    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)
    malformed: set[str] = field(default_factory=set)
    read_at: dict[str, tuple[float, float]] = field(default_factory=dict)


def _unchecked(document: bytes, node: str) -> dict[str, Any]:
    status: dict[str, Any] = result_of(document, node, _METHOD)
    return status


class NodeReader:
    """Asks nodes for their status on their control sockets. Blocking; for one thread at a time."""

    def __init__(
        self,
        *,
        with_rules: bool = True,
        parse: Callable[[bytes, str], dict[str, Any]] = _unchecked,
    ) -> None:
        """
        Args:
            with_rules: see :meth:`innet.node.agent.NodeAgent.status`.
            parse: reads the reply of a node; a reader that uses more than single fields checks all
                (:func:`innet.node.node_status.status_of`).
        """
        self._parse = parse
        self._kept: dict[Path, socket.socket] = {}
        request = ControlRequest(method=_METHOD, params={} if with_rules else {"with_rules": False})
        self._request = request.model_dump_json().encode() + b"\n"

    def read(
        self,
        sockets: Mapping[str, Path],
        timeout_s: float,
        phases: Sequence[Collection[str]] = (),
        held: Callable[[], Mapping[str, int]] = dict,
    ) -> NodeReadings:
        """Ask all nodes.

        Args:
            sockets: the control socket of each node.
            phases: the nodes of each receive requests when those of the phase before have answered.
            held: nodes whose process a signal or a debugger holds now, and the pid: nobody waits
                for them.
        """
        silent = {node: _held(pid) for node, pid in held().items()}
        sockets = {node: path for node, path in sockets.items() if node not in silent}
        in_phases = {name for phase in phases for name in phase}
        round_ = _Round(sockets, self._kept, _Question(self._request, self._parse), timeout_s)
        for phase in (*phases, [name for name in sockets if name not in in_phases]):
            names = [name for name in phase if name in sockets]
            for first in range(0, len(names), _AT_ONCE):
                for name in names[first : first + _AT_ONCE]:
                    round_.ask(name)
                round_.receive(_PHASE_S)
        round_.receive_all(held)
        round_.readings.silent.update(silent)
        round_.end()
        self._forget(sockets.values())
        return round_.readings

    def _forget(self, paths: Collection[Path]) -> None:
        """Close connections to nodes that have ended, and those beyond the limit."""
        wanted = set(paths)
        for number, path in enumerate(list(self._kept)):
            if path not in wanted or number >= _AT_ONCE:
                self._kept.pop(path).close()

    def close(self) -> None:
        """Close all connections; the next reading opens them again."""
        self._forget(())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class _Question:
    """The request to each node, and what reads its reply."""

    request: bytes
    parse: Callable[[bytes, str], dict[str, Any]]


@dataclass
class _Asked:
    """A request that waits for its reply."""

    node: str
    path: Path
    connection: socket.socket
    asked_s: float
    received: bytearray = field(default_factory=bytearray)


class _Round:
    """One reading of all nodes."""

    def __init__(
        self,
        sockets: Mapping[str, Path],
        kept: dict[Path, socket.socket],
        question: _Question,
        timeout_s: float,
    ) -> None:
        self.readings = NodeReadings()
        self._sockets = sockets
        self._kept = kept
        self._question = question
        self._unread_bytes = 0
        self._timeout_s = timeout_s
        self._deadline_s = time.monotonic() + timeout_s
        self._open: dict[int, _Asked] = {}
        self._poller = select.poll()

    def ask(self, node: str) -> None:
        """Send the request to a node."""
        path = self._sockets[node]
        if not path.exists():
            self.readings.silent[node] = "no node of innet (yet) in its process"
            return
        connection = self._kept.pop(path, None)
        if connection is not None and not _is_quiet(connection):
            connection.close()  # another process has the node now
            connection = None
        asked_s = time.monotonic()
        try:
            connection = connection or _connected(path)
            connection.send(self._question.request)
        except OSError as error:
            if connection is not None:
                connection.close()
            self.readings.silent[node] = str(no_answer(node, _METHOD, None, error))
            return
        self._open[connection.fileno()] = _Asked(node, path, connection, asked_s)
        self._poller.register(connection, select.POLLIN)

    def receive(self, timeout_s: float) -> None:
        """Receive replies until all are there, or for ``timeout_s``, or until time is up."""
        until_s = min(self._deadline_s, time.monotonic() + timeout_s)
        while self._open and (left_s := until_s - time.monotonic()) > 0:
            for number, _ in self._poller.poll(math.ceil(1000 * left_s)):
                self._take(self._open[number])

    def receive_all(self, held: Callable[[], Mapping[str, int]]) -> None:
        """Receive until all replies are there, or time is up, or the rest is held."""
        while self._open and time.monotonic() < self._deadline_s:
            self.receive(_PHASE_S)
            stopped = held() if self._open else {}
            for asked in [asked for asked in self._open.values() if asked.node in stopped]:
                self._fail(asked, None)
                self.readings.silent[asked.node] = _held(stopped[asked.node])

    def _take(self, asked: _Asked) -> None:
        try:
            part = asked.connection.recv(_RECEIVE_BYTES)
        except OSError:
            part = b""
        asked.received += part
        self._unread_bytes += len(part)
        if not part:
            self._fail(asked, None)
        elif self._is_too_long(asked):
            self._fail(asked, None)
            self._refuse(asked.node, f"{asked.node} sends a status without an end")
        elif part.endswith(b"\n"):
            self._close(asked)
            self._kept[asked.path] = asked.connection
            self._store(asked)

    def _is_too_long(self, asked: _Asked) -> bool:
        longest = max(len(each.received) for each in self._open.values())
        is_full = self._unread_bytes > _MOST_UNREAD_BYTES and len(asked.received) == longest
        return len(asked.received) > _MOST_ANSWER_BYTES or is_full

    def _store(self, asked: _Asked) -> None:
        readings, node = self.readings, asked.node
        try:
            readings.nodes[node] = self._question.parse(bytes(asked.received), node)
            readings.read_at[node] = (asked.asked_s, time.monotonic())
        except MalformedStatus as error:
            self._refuse(node, str(error))
        except ControlError as error:
            readings.silent[node] = one_line(str(error))

    def _refuse(self, node: str, why: str) -> None:
        self.readings.silent[node] = why
        self.readings.malformed.add(node)

    def _fail(self, asked: _Asked, timeout_s: float | None) -> None:
        self._close(asked)
        asked.connection.close()
        self.readings.silent[asked.node] = str(no_answer(asked.node, _METHOD, timeout_s, None))

    def _close(self, asked: _Asked) -> None:
        del self._open[asked.connection.fileno()]
        self._unread_bytes -= len(asked.received)
        self._poller.unregister(asked.connection)

    def end(self) -> None:
        """Close connections without a reply, which might come during the next request."""
        for asked in list(self._open.values()):
            self._fail(asked, self._timeout_s)


def _held(pid: int) -> str:
    return f"a signal or a debugger holds its process. `kill -CONT {pid}` lets it go on."


def _connected(path: Path) -> socket.socket:
    """A connection to a control socket.

    Raises:
        OSError: nobody listens there, or too many wait to be let in.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    return connection


def _is_quiet(connection: socket.socket) -> bool:
    """Whether the connection is open, without unexpected bytes from the other end."""
    with contextlib.suppress(BlockingIOError):
        connection.recv(1, socket.MSG_PEEK)
        return False
    return True
