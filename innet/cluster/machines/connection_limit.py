"""Bounds the open connections of unauthenticated peers to a launcher."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import zmq
import zmq.asyncio
from zmq.utils.monitor import recv_monitor_message

MAX_STRANGERS: Final = 256

_ENDPOINT: Final = "inproc://connections"
_log = logging.getLogger(__name__)


class ConnectionLimit:
    """Closes all connections when too many are open that belong to no machine.

    ZeroMQ takes every connection, which holds a descriptor until its handshake succeeds or times
    out, and closes none on request. When the launcher listens anew, ZeroMQ closes all of them.
    Machines connect again within a fraction of a second, and their sessions go on.
    """

    def __init__(
        self,
        context: zmq.asyncio.Context,
        listener: zmq.asyncio.Socket,
        joined: Callable[[], int],
    ) -> None:
        """
        Args:
            listener: the socket, before it is bound.
            joined: returns how many connections belong to machines.
        """
        self._listener = listener
        self._joined = joined
        self._limit = MAX_STRANGERS
        self._open: set[int] = set()
        """Descriptors of the connections."""
        self._unbound: str | None = None
        self._monitor = context.socket(zmq.PAIR)
        self._monitor.rcvhwm = 0  # a full queue would stop ZeroMQ's thread
        listener.monitor(_ENDPOINT, zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED)
        self._monitor.connect(_ENDPOINT)

    async def watch(self) -> None:
        """Count connections, and close them when there are too many."""
        while True:
            message = await recv_monitor_message(self._monitor)
            if message["event"] == zmq.EVENT_ACCEPTED:
                self._open.add(int(message["value"]))
            else:
                self._open.discard(int(message["value"]))
            strangers = len(self._open) - self._joined()
            if strangers > self._limit:
                self._close_all(strangers)

    def listen(self) -> None:
        """Listen again, if that was not possible before; to be called now and then."""
        if self._unbound is None:
            return
        try:
            self._listener.bind(self._unbound)
            self._unbound = None
        except zmq.ZMQError as error:  # the kernel has not closed it yet
            _log.debug("cannot listen on %s yet: %s", self._unbound, error)

    def _close_all(self, strangers: int) -> None:
        if self._unbound is not None:
            return
        self._unbound = self._listener.getsockopt_string(zmq.LAST_ENDPOINT)
        _log.warning(
            "%d connections to %s belonged to no machine, and were closed; machines connect again. "
            "Let a firewall admit the addresses of machines alone",
            strangers,
            self._unbound,
        )
        self._open.clear()
        self._listener.unbind(self._unbound)
        self.listen()

    def close(self) -> None:
        """Count no longer."""
        self._listener.disable_monitor()
        self._monitor.close(linger=0)
