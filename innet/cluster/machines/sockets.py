"""ZeroMQ sockets between machines: CURVE, and bounds on memory and time."""

from __future__ import annotations

from typing import Final

import zmq
import zmq.asyncio

from innet.cluster.machines.agent_key import KeyPair
from innet.cluster.machines.messages import MAX_MESSAGE_BYTES
from innet.cluster.machines.resumption import MAX_BACKLOG

ZAP_DOMAIN: Final = "innet"

_HANDSHAKE_MS: Final = 5000
_UNREAD_MESSAGES: Final = 16
"""Limit of unread messages of a peer: 4 MiB with the largest ones."""
_UNSENT_MESSAGES: Final = 4 * MAX_BACKLOG
"""Of a machine that does not read, beyond all frames of its session (:mod:`.resumption`)."""
_BACKLOG: Final = 1024


def router(
    context: zmq.asyncio.Context, pair: KeyPair, *, dead_after_s: float
) -> zmq.asyncio.Socket:
    """The launcher's socket: a CURVE server.

    Args:
        dead_after_s: a connection whose other end does not answer for so long is closed.
    """
    socket = context.socket(zmq.ROUTER)
    _bound(socket)
    socket.curve_server = True
    socket.curve_secretkey = pair.secret_key.encode()
    socket.zap_domain = ZAP_DOMAIN.encode()
    socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
    socket.setsockopt(zmq.ROUTER_MANDATORY, 1)  # tells that a connection is closed, or full
    socket.sndhwm = _UNSENT_MESSAGES
    socket.setsockopt(zmq.HEARTBEAT_IVL, max(1, int(dead_after_s * 500)))
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, max(1, int(dead_after_s * 1000)))
    socket.backlog = _BACKLOG
    return socket


def dealer(
    context: zmq.asyncio.Context, pair: KeyPair, server_key: str, *, timeout_s: float
) -> zmq.asyncio.Socket:
    """An agent's socket for one connection: a CURVE client that does not connect again."""
    socket = context.socket(zmq.DEALER)
    _bound(socket)
    socket.sndhwm = 0  # windows bound what is sent; a dropped message would break a session
    socket.curve_publickey = pair.public_key.encode()
    socket.curve_secretkey = pair.secret_key.encode()
    socket.curve_serverkey = server_key.encode()
    socket.setsockopt(zmq.RECONNECT_IVL, -1)
    socket.setsockopt(zmq.CONNECT_TIMEOUT, max(1, int(timeout_s * 1000)))
    return socket


def _bound(socket: zmq.asyncio.Socket) -> None:
    socket.linger = 0
    socket.ipv6 = True
    socket.maxmsgsize = MAX_MESSAGE_BYTES
    socket.rcvhwm = _UNREAD_MESSAGES
    socket.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_MS)
