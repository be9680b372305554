"""A machine's end: the connection of its agent to the launcher."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from time import monotonic
from typing import Any, Final, NoReturn, Self

import zmq
import zmq.asyncio
from zmq.utils.monitor import recv_monitor_message

from innet.backoff import Backoff
from innet.cluster.machines.addresses import Address, obstacle_to
from innet.cluster.machines.agent_key import AgentKey
from innet.cluster.machines.messages import (
    Bye,
    Heartbeat,
    Heartbeats,
    JoinAcceptance,
    JoinRefusal,
    JoinRequest,
    MalformedMessage,
    NumberedFrame,
    bye_message,
    join_message,
    own_version,
    parse_message,
)
from innet.cluster.machines.resumption import BrokenSession
from innet.cluster.machines.sockets import dealer
from innet.cluster.machines.token_file import TokenFile
from innet.cluster.machines.tunnel import Tunnel
from innet.errors import EmulationError, InnetError, JoinRefused

_CONNECT_TIMEOUT_S: Final = 5.0
_LEAST_REPLY_S: Final = 1.0
_LINGER_MS: Final = 500
"""How long the end of an agent waits until the launcher has read that it ends."""

_log = logging.getLogger(__name__)
_EVENTS: Final = (
    zmq.EVENT_CONNECTED
    | zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_CLOSED
)


class _Interrupted(Exception):
    """The connection broke; another one may continue the session."""

    def __init__(self, message: str, refusal: JoinRefused | None = None) -> None:
        self.refusal = refusal
        super().__init__(message)


class _NotConnected(Exception):
    """No connection was made."""


class LauncherConnection:
    """The session of this machine with the launcher, as an async context manager.

    It reconnects by itself when the connection breaks, and its streams continue. It ends when the
    launcher ends it, for example because this machine has a new address, or when the launcher does
    not answer for the timeout of heartbeats.

    Example::

        address = Address.parsed("10.0.0.1:4711")
        async with LauncherConnection(Path("prod.token"), address) as launcher:
            run_dir = make_run_dir(launcher.machine)
            launcher.offer(run_dir, [f"{launcher.machine}.agent"])
            await launcher.serve(run_dir)
            reason = await launcher.ended()

    Attributes:
        leaves_because: what the launcher receives when this machine leaves by itself.
    """

    leaves_because: str = "it was taken down"

    def __init__(
        self,
        token_file: Path,
        address: Address,
        *,
        machine: str | None = None,
        patience_s: float = 30.0,
        say: Callable[[str], object] = _log.info,
    ) -> None:
        """
        Args:
            token_file: of ``innet up --listen``; the machine's key is kept beside it.
            address: of the launcher; port 0 is the one in the token file.
            machine: name to join as; ``None``: as the launcher says.
            patience_s: how long a launcher is waited for that does not answer at first.
            say: prints why this machine has not joined at first.
        """
        self._token_path = token_file
        self._address = address
        self._name = machine
        self._patience_s = patience_s
        self._say = say
        self._session = secrets.token_hex(16)
        self._tunnel = Tunnel(is_launcher=False)
        self._acceptance: JoinAcceptance | None = None
        self._key: AgentKey | None = None
        self._token: TokenFile | None = None
        self._context: zmq.asyncio.Context | None = None
        self._socket: zmq.asyncio.Socket | None = None
        self._runner: asyncio.Task[None] | None = None
        self._ended: asyncio.Future[str] | None = None
        self._heard_at_s = 0.0
        self._failures = 0
        self._reached = address
        self._is_joined = asyncio.Event()

    # What the agent uses

    @property
    def machine(self) -> str:
        """The name of this machine in the network."""
        return self._accepted.machine

    @property
    def network(self) -> str:
        """The name of the network."""
        assert self._token is not None
        return self._token.network

    @property
    def reached(self) -> Address:
        """The IP address of the launcher that this machine has joined at last."""
        return self._reached

    @property
    def sockets(self) -> tuple[str, ...]:
        """Names of the launcher's sockets that this machine may connect to."""
        return self._accepted.sockets

    @property
    def heartbeats(self) -> Heartbeats:
        """How often both ends give a sign of life, as the launcher says."""
        return self._accepted.heartbeats

    def offer(self, run_dir: Path, names: Iterable[str]) -> None:
        """Let the launcher connect to sockets of these names in ``run_dir``. Calls add up."""
        self._tunnel.offer({name: run_dir / name for name in names})

    async def serve(self, run_dir: Path, names: Iterable[str] | None = None) -> None:
        """Listen on the launcher's sockets in ``run_dir``, and begin to serve the launcher.

        Until the first call, what the launcher sends waits. A process that connects to one of the
        sockets is connected to the launcher's of the same name.

        Args:
            names: by default all that the launcher offers (:attr:`sockets`).
        """
        await self._tunnel.listen(run_dir, self.sockets if names is None else names)
        self._tunnel.start()

    async def ended(self) -> str:
        """Wait until the session is over; the reason, as a sentence without a full stop."""
        assert self._ended is not None
        return await asyncio.shield(self._ended)

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now."""
        return self._is_joined.is_set()

    # Its life

    async def __aenter__(self) -> Self:
        """Join.

        Raises:
            SecurityError: the token file or the key cannot be used.
            JoinRefused: the launcher does not admit this machine.
            EmulationError: the launcher cannot be reached.
        """
        self._token = TokenFile.load(self._token_path)
        if self._address.port == 0:
            self._address = Address(self._address.host, self._token.port)
        if self._name is not None:
            self._token.secret_of(self._name)
        self._key = AgentKey.opened(self._token_path, self._name)
        self._context = zmq.asyncio.Context()
        self._ended = asyncio.get_running_loop().create_future()
        self._heard_at_s = monotonic()
        self._runner = asyncio.ensure_future(self._run())
        joined = asyncio.ensure_future(self._is_joined.wait())
        try:
            await asyncio.wait([joined, self._runner], return_when=asyncio.FIRST_COMPLETED)
            if self._runner.done():
                self._runner.result()
        except BaseException:
            await self.__aexit__()
            raise
        finally:
            joined.cancel()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leave the network: notify the launcher, and close all relayed connections."""
        assert self._runner is not None
        assert self._context is not None
        assert self._key is not None
        if self._socket is not None and self.is_connected:
            self._socket.linger = _LINGER_MS
            self._transmit(bye_message(self.leaves_because))
        self._end("the agent has left")
        self._runner.cancel()
        try:
            await asyncio.gather(self._runner, return_exceptions=True)
            await self._tunnel.close()
        finally:
            self._key.close()
            await asyncio.to_thread(self._context.term)

    @property
    def _accepted(self) -> JoinAcceptance:
        assert self._acceptance is not None, "not joined yet"
        return self._acceptance

    # Connections

    async def _run(self) -> None:
        """Keep up the session until it is over.

        Raises:
            InnetError: this machine could not join.
        """
        try:
            self._end(await self._keep_connected())
        except Exception as error:
            if self._acceptance is None:
                raise
            if not isinstance(error, InnetError):
                _log.exception("the session with the launcher met a defect")
            self._end(str(error))

    async def _keep_connected(self) -> str:
        """Join over one connection after the other; why the session is over."""
        backoff = Backoff(first_s=0.1, longest_s=2.0)
        said = ""
        while True:
            try:
                return await self._connect_once(backoff)
            except _Interrupted as error:
                obstacle = error
            if monotonic() - self._heard_at_s >= self._silence_limit_s:
                if self._acceptance is None:
                    raise obstacle.refusal or EmulationError(str(obstacle))
                return f"the launcher does not answer for {self._silence_limit_s:g} s"
            _log.info("%s; trying again", obstacle)
            if self._acceptance is None and said != (said := str(obstacle)):
                self._say(f"not joined yet: {said} (trying for {self._patience_s:g} s)")
            await asyncio.sleep(backoff.next_s())

    @property
    def _silence_limit_s(self) -> float:
        accepted = self._acceptance
        return self._patience_s if accepted is None else accepted.heartbeats.timeout_s

    async def _connect_once(self, backoff: Backoff) -> str:
        """Use one connection to its end; why the session is over.

        Raises:
            _Interrupted: only the connection is over.
        """
        assert self._context is not None
        assert self._key is not None
        assert self._token is not None
        address = self._reached = await self._resolved()
        self._socket = dealer(
            self._context,
            self._key.pair,
            self._token.public_key,
            timeout_s=_CONNECT_TIMEOUT_S,
        )
        monitor = self._socket.get_monitor_socket(_EVENTS)
        watcher = asyncio.ensure_future(self._watch(monitor))
        exchange = asyncio.ensure_future(self._exchange(self._socket, backoff))
        try:
            self._socket.connect(address.endpoint)
            await asyncio.wait([watcher, exchange], return_when=asyncio.FIRST_COMPLETED)
            # A message that came before the end of the connection counts.
            return exchange.result() if exchange.done() else watcher.result()
        except _NotConnected:
            if self._acceptance is not None:
                raise _Interrupted(f"no connection to {self._address}") from None
            raise _Interrupted(await obstacle_to(address, str(self._address))) from None
        except zmq.ZMQError as error:
            raise _Interrupted(
                f"cannot connect to {self._address}: {error.strerror}. Is the address right?"
            ) from error
        finally:
            self._is_joined.clear()
            self._tunnel.interrupt()
            for task in (watcher, exchange):
                task.cancel()
            # Without a pause until then: an open socket would hold up the end of the process.
            self._socket.disable_monitor()
            monitor.close(linger=0)
            self._socket.close()
            self._socket = None
            await asyncio.gather(watcher, exchange, return_exceptions=True)

    async def _resolved(self) -> Address:
        """The launcher's IP address; of several, another one after each failure to join.

        Raises:
            _Interrupted: it has none now.
        """
        loop, address = asyncio.get_running_loop(), self._address
        try:
            found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise _Interrupted(
                f"the name {address.host} has no address: {error.strerror}. Is it right, and does "
                "this machine resolve it?"
            ) from error
        hosts = list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))
        host = hosts[self._failures % len(hosts)]
        self._failures += 1  # until it has joined
        return Address(host, address.port)

    async def _watch(self, monitor: zmq.asyncio.Socket) -> NoReturn:
        """Wait for the end of a connection.

        Raises:
            _Interrupted: always.
        """
        has_connected = has_authenticated = False
        while True:
            event = (await recv_monitor_message(monitor))["event"]
            if event == zmq.EVENT_CONNECTED:
                has_connected = True
            elif event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                has_authenticated = True
            elif has_authenticated:
                raise _Interrupted(f"the connection to {self._address} broke")
            elif has_connected:
                raise _Interrupted(
                    f"{self._address} is not the launcher that wrote {self._token_path}, or "
                    "strangers open too many connections to it. Copy the token file that `innet up "
                    "--listen` has written now, or let a firewall admit the machines alone"
                )
            else:
                raise _NotConnected

    async def _exchange(self, connection: zmq.asyncio.Socket, backoff: Backoff) -> str:
        """Join and carry messages; why the session is over."""
        self._transmit(join_message(self._request()))
        await self._await_reply(connection)
        backoff.reset()
        beat = asyncio.ensure_future(self._beat())
        try:
            while True:
                async with asyncio.timeout(self.heartbeats.timeout_s):
                    message = await connection.recv()
                if (reason := self._on_message(message)) is not None:
                    return reason
                await asyncio.sleep(0)
        except TimeoutError as error:
            raise _Interrupted(f"{self._address} fell silent") from error
        except BrokenSession as error:
            raise _Interrupted(f"the connection lost messages ({error})") from error
        finally:
            beat.cancel()

    # Joining

    def _request(self) -> JoinRequest:
        assert self._token is not None
        assert self._key is not None
        name = self._name if self._acceptance is None else self._acceptance.machine
        machines = self._token.machines
        return JoinRequest(
            network=self._token.network,
            version=own_version(),
            machines=dict(machines) if name is None else {name: machines[name]},
            preferred=self._key.machine,
            session=self._session,
            is_resumption=self._acceptance is not None,
            received=self._tunnel.received,
        )

    async def _await_reply(self, connection: zmq.asyncio.Socket) -> None:
        """Wait for the reply to the join request.

        Raises:
            JoinRefused: the launcher does not admit this machine.
            _Interrupted: it does not answer, or will admit it later.
        """
        left_s = self._heard_at_s + self._silence_limit_s - monotonic()
        try:
            async with asyncio.timeout(min(2 * _CONNECT_TIMEOUT_S, max(left_s, _LEAST_REPLY_S))):
                reply = parse_message(await connection.recv())
        except (TimeoutError, MalformedMessage) as error:
            raise _Interrupted(
                f"{self._address} does not answer. Is the network up there, and does the firewall "
                "let the port through?"
            ) from error
        if isinstance(reply, JoinAcceptance):
            self._on_accepted(reply)
        elif isinstance(reply, JoinRefusal):
            self._on_refused(reply)
        else:
            raise _Interrupted(f"{self._address} answered a join request with something else")

    def _on_accepted(self, reply: JoinAcceptance) -> None:
        assert self._key is not None
        self._key.keep_for(reply.machine)
        self._acceptance = reply
        self._failures -= 1
        self._heard_at_s = monotonic()
        self._tunnel.resume(reply.received, self._transmit)
        self._is_joined.set()

    def _on_refused(self, reply: JoinRefusal) -> None:
        refusal = JoinRefused(
            f"{self._address} refuses this machine: {reply.message}", reply.reason
        )
        if reply.reason == "connected" and self._acceptance is None:
            # An agent that was killed looks connected for a while.
            raise _Interrupted(str(refusal), refusal)
        if self._acceptance is None:
            assert self._key is not None
            self._key.forget()
        raise refusal

    # Messages

    def _on_message(self, content: bytes) -> str | None:
        """Take a message; why the session is over, if it is."""
        self._heard_at_s = monotonic()
        try:
            message = parse_message(content)
        except MalformedMessage as error:
            raise BrokenSession(str(error)) from error
        if isinstance(message, Bye):
            return message.reason
        if isinstance(message, NumberedFrame | Heartbeat):
            self._tunnel.take(message)
        return None

    def _transmit(self, message: bytes) -> None:
        assert self._socket is not None
        sent: Any = self._socket.send(message)
        sent.add_done_callback(lambda future: future.cancelled() or future.exception())

    async def _beat(self) -> None:
        try:
            while True:
                await asyncio.sleep(self.heartbeats.interval_s)
                self._tunnel.heartbeat()
        except Exception as error:
            _log.exception("the heartbeats met a defect")
            self._end(f"its heartbeats met a defect: {error!r}")

    def _end(self, reason: str) -> None:
        assert self._ended is not None
        if not self._ended.done():
            self._ended.set_result(reason)
