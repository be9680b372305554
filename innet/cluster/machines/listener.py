"""The launcher's end: machines join here, and their streams are relayed."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Final, Self

import zmq
import zmq.asyncio
from zmq.auth import CURVE_ALLOW_ANY
from zmq.auth.asyncio import AsyncioAuthenticator

from innet.cluster.machines.addresses import Address, reachable_addresses
from innet.cluster.machines.admission import (
    ENDED,
    LAUNCHER_ENDED,
    Admission,
    Admitted,
    Lost,
    Peer,
)
from innet.cluster.machines.connection_limit import ConnectionLimit
from innet.cluster.machines.launcher_identity import LauncherIdentity
from innet.cluster.machines.messages import (
    Bye,
    Heartbeat,
    Heartbeats,
    JoinAcceptance,
    JoinRefusal,
    JoinRequest,
    MalformedMessage,
    Message,
    NumberedFrame,
    bye_message,
    own_version,
    parse_message,
    reply_message,
)
from innet.cluster.machines.resumption import BrokenSession
from innet.cluster.machines.sockets import ZAP_DOMAIN, router
from innet.cluster.machines.token_file import TokenFile
from innet.cluster.machines.tunnel import Tunnel
from innet.errors import EmulationError
from innet.printable import one_line

_LINGER_MS: Final = 500
"""How long the end of the launcher waits until machines have read that it ends."""
_REMEMBERED_REFUSALS: Final = 1024
_REPORTED_REFUSALS: Final = 20
_REPORT_S: Final = 60.0
"""Period in which so many refusals are reported."""

_log = logging.getLogger(__name__)


class JoinedMachine:
    """A machine that has joined, until its session ends.

    Attributes:
        name: of the machine.
        address: where its agent connected from, as an IP address.
        offered: the sockets that it may connect to, by the names that it uses.
    """

    def __init__(self, name: str, address: str, run_dir: Path, offered: Mapping[str, Path]) -> None:
        self.name = name
        self.address = address
        self.offered = offered
        self.tunnel = Tunnel(is_launcher=True)
        self.tunnel.offer(offered)
        self.tunnel.start()
        self._run_dir = run_dir
        self._lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def serve(self, names: Iterable[str]) -> None:
        """Listen on sockets of these names in the launcher's run directory.

        Each connection is relayed to the socket of the same name in the agent's run directory;
        one that does not listen yet is waited for, for 10 s. Calls add up.

        Raises:
            EmulationError: a socket cannot be made, or the machine is lost.
        """
        if self._lost.done():
            raise EmulationError(
                f"machine {self.name} is lost: {self._lost.result()}. Start its agent again"
            )
        await self.tunnel.listen(self._run_dir, names)

    @property
    def is_lost(self) -> bool:
        """Whether the session is over."""
        return self._lost.done()

    async def lost(self) -> str:
        """Wait until the session is over; the reason, as a sentence without a full stop."""
        return await asyncio.shield(self._lost)

    async def end(self, reason: str) -> None:
        """Close the relayed connections and sockets; :meth:`lost` returns then."""
        if not self._lost.done():
            self._lost.set_result(reason)
        await self.tunnel.close()


class MachineListener:
    """Where the machines of a network join, as an async context manager.

    Example::

        async with MachineListener(
            Address.parsed("10.0.0.1"), LauncherIdentity.made("prod", ["h1", "h2"]), run_dir,
            offered=lambda machine: {"session.sock": run_dir / f"session.sock@{machine}"},
        ) as listener:
            listener.token_file().save(Path("prod.token"))
            machine = await listener.joined("h1")
            await machine.serve(["h1.agent"])

    Attributes:
        ends_for_good: its end is that of the network; otherwise agents try to join again.
    """

    ends_for_good: bool = True

    def __init__(
        self,
        address: Address,
        identity: LauncherIdentity,
        run_dir: Path,
        *,
        offered: Callable[[str], Mapping[str, Path]] = lambda _machine: {},
        heartbeats: Heartbeats | None = None,
    ) -> None:
        """
        Args:
            address: to listen on; port 0 is that of the identity, or any free one.
            identity: of the launcher; it names the network, and the machines that may join.
            run_dir: of the launcher; sockets of machines appear there.
            offered: the sockets that a machine may connect to, by the names that it uses.
        """
        self._bound = address
        self._run_dir = run_dir
        self._identity = identity
        self._offered = offered
        self._heartbeats = heartbeats or Heartbeats()
        self._admission = Admission(
            identity.machines,
            network=identity.network,
            version=own_version(),
            heartbeats=self._heartbeats,
        )
        self._joined: dict[str, JoinedMachine] = {}
        self._waiting: dict[str, list[asyncio.Future[JoinedMachine]]] = {}
        self._on_joined: list[Callable[[JoinedMachine], object]] = []
        self._on_lost: list[Callable[[JoinedMachine, str], object]] = []
        self._on_refused: list[Callable[[str, str], object]] = []
        self._on_bound: list[Callable[[LauncherIdentity], object]] = []
        self._refused: OrderedDict[bytes, None] = OrderedDict()
        self._reported = 0
        self._reported_from_s = monotonic()
        self._context: zmq.asyncio.Context | None = None
        self._socket: zmq.asyncio.Socket | None = None
        self._authenticator: AsyncioAuthenticator | None = None
        self._limit: ConnectionLimit | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    # What the launcher uses

    @property
    def address(self) -> Address:
        """The address that it listens on, with the actual port."""
        return self._bound

    @property
    def identity(self) -> LauncherIdentity:
        """The identity of this launcher, with the port and the machines of now."""
        return self._identity

    @property
    def missing(self) -> tuple[str, ...]:
        """Machines that have not joined, or are lost, in natural order."""
        return self._admission.missing

    def token_file(self, addresses: Sequence[str] | None = None) -> TokenFile:
        """The token file with which machines join.

        Args:
            addresses: where they reach the launcher, as ``HOST:PORT``; by default all addresses of
                this machine on which it listens.
        """
        return self._identity.token_file(addresses or reachable_addresses(self._bound))

    async def joined(self, machine: str) -> JoinedMachine:
        """Wait until a machine has joined; at once if it has."""
        if machine in self._joined:
            return self._joined[machine]
        if machine not in self._admission.machines:
            raise ValueError(f"unknown machine {machine!r}")
        waiting: asyncio.Future[JoinedMachine] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(machine, []).append(waiting)
        return await waiting

    def on_joined(self, callback: Callable[[JoinedMachine], object]) -> None:
        """Call ``callback`` in the event loop whenever a machine has joined, or joined anew."""
        self._on_joined.append(callback)

    def on_lost(self, callback: Callable[[JoinedMachine, str], object]) -> None:
        """Call ``callback(machine, reason)`` in the event loop whenever a session is over.

        A machine that reconnects within the timeout of heartbeats is not lost. One that is lost may
        join again, and is another :class:`JoinedMachine` then.
        """
        self._on_lost.append(callback)

    def on_refused(self, callback: Callable[[str, str], object]) -> None:
        """Call ``callback(address, reason)`` in the event loop whenever a machine may not join."""
        self._on_refused.append(callback)

    def on_bound(self, callback: Callable[[LauncherIdentity], object]) -> None:
        """Call ``callback`` with the changed identity before a machine joins for the first time."""
        self._on_bound.append(callback)

    # Its life

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            EmulationError: the address cannot be used.
        """
        self._context = zmq.asyncio.Context()
        self._authenticator = AsyncioAuthenticator(self._context)
        self._authenticator.start()
        self._authenticator.configure_curve(domain=ZAP_DOMAIN, location=CURVE_ALLOW_ANY)
        self._socket = router(
            self._context, self._identity.pair, dead_after_s=2 * self._heartbeats.timeout_s
        )
        self._limit = ConnectionLimit(self._context, self._socket, self._admission.descriptors)
        try:
            self._bind(self._socket)
        except zmq.ZMQError as error:
            self._close_sockets(linger_ms=0)
            self._context.term()
            raise EmulationError(
                f"cannot listen on {self._bound}: {error.strerror}. Name an address of this "
                "machine and a free port with --listen"
            ) from error
        endpoint = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self._bound = Address(self._bound.host, int(endpoint.rpartition(":")[2]))
        self._identity = self._identity.model_copy(update={"port": self._bound.port})
        self._start(self._receive(self._socket))
        self._start(self._beat())
        self._start(self._limit.watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Tell all machines why the launcher ends, and close everything."""
        ended = self._admission.close(ENDED if self.ends_for_good else LAUNCHER_ENDED)
        for lost in ended:
            self._say_bye(lost)
        ends = [self._lose(lost) for lost in ended]
        for task in list(self._tasks):
            task.cancel()
        for waiting in self._waiting.values():
            for future in waiting:
                future.cancel()
        self._close_sockets(linger_ms=_LINGER_MS)
        try:
            await asyncio.gather(*self._tasks, *ends, return_exceptions=True)
        finally:
            assert self._context is not None
            await asyncio.to_thread(self._context.term)

    def _bind(self, listening: zmq.asyncio.Socket) -> None:
        """Listen on the port of before, if any will do and it is free."""
        if not self._bound.port and self._identity.port:
            with suppress(zmq.ZMQError):
                listening.bind(Address(self._bound.host, self._identity.port).endpoint)
                return
        listening.bind(self._bound.endpoint)

    def _close_sockets(self, *, linger_ms: int) -> None:
        assert self._socket is not None
        assert self._authenticator is not None
        assert self._limit is not None
        self._limit.close()
        self._socket.close(linger=linger_ms)
        self._authenticator.stop()

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._report("machines of this network are no longer served", error)
            for lost in self._admission.close(f"the launcher met a defect: {error!r}"):
                self._say_bye(lost)
                self._finish(lost)

    def _report(self, what: str, error: BaseException) -> None:
        loop = asyncio.get_running_loop()
        loop.call_exception_handler({"message": what, "exception": error})

    # Messages

    async def _receive(self, connection: zmq.asyncio.Socket) -> None:
        while True:
            frames = await connection.recv_multipart(copy=False)
            identity = frames[0].bytes
            # One that a peer has chosen could be that of another peer.
            if len(frames) == 2 and len(identity) == 5 and identity[0] == 0:
                peer = _peer(identity, frames[1])
                try:
                    self._on_message(peer, frames[1].bytes)
                except Exception as error:  # a defect for one machine must not end the others
                    self._report("a message of a machine could not be processed", error)
            await asyncio.sleep(0)  # a flood of messages must not hold up the event loop

    def _on_message(self, peer: Peer, content: bytes) -> None:
        machine = self._admission.heard(peer, monotonic())
        try:
            message = parse_message(content)
        except MalformedMessage as error:
            _log.info("%s sent something else than a message: %s", peer.address, error)
            return
        if machine is not None:
            self._on_message_of(self._joined[machine], peer, message)
        elif isinstance(message, JoinRequest):
            self._on_join(message, peer)

    def _on_message_of(self, machine: JoinedMachine, peer: Peer, message: Message) -> None:
        if isinstance(message, Bye):
            why = f"the agent of machine {machine.name} has ended: {one_line(message.reason)}"
            lost = self._admission.end(machine.name, why)
            self._finish(lost)
        elif isinstance(message, NumberedFrame | Heartbeat):
            try:
                machine.tunnel.take(message)
            except BrokenSession as error:
                self._break(machine, error)

    def _break(self, machine: JoinedMachine, error: BrokenSession) -> None:
        lost = self._admission.end(
            machine.name, f"the connection of machine {machine.name} lost messages ({error})"
        )
        if lost is not None:
            self._say_bye(lost)
        self._finish(lost)

    def _on_join(self, request: JoinRequest, peer: Peer) -> None:
        if peer.connection in self._refused:
            return
        candidate = self._admission.candidate(request, peer.key)
        if candidate is not None and candidate in self._joined:
            self._joined[candidate].tunnel.heartbeat()  # is its connection still open?
        self._finish(self._admission.moved(request, peer))
        outcome = self._admission.join(request, peer, monotonic())
        if isinstance(outcome, JoinRefusal):
            self._report_refused(peer.address, outcome.message)
            self._transmit(peer.connection, reply_message(outcome))
            self._refused[peer.connection] = None
            if len(self._refused) > _REMEMBERED_REFUSALS:
                self._refused.popitem(last=False)
            return
        self._report_bound()
        self._admit(outcome, request, peer)

    def _report_refused(self, address: str, reason: str) -> None:
        """Report the first refusals of a while: anybody can knock without end."""
        now_s = monotonic()
        if now_s - self._reported_from_s >= _REPORT_S:
            self._reported, self._reported_from_s = 0, now_s
        self._reported += 1
        if self._reported > _REPORTED_REFUSALS:
            return
        _log.info("%s may not join: %s", address, reason)
        for callback in self._on_refused:
            asyncio.get_running_loop().call_soon(callback, address, reason)

    def _report_bound(self) -> None:
        """Report the identity if a machine has been bound to its key."""
        credentials = self._admission.credentials
        if credentials != self._identity.machines:
            self._identity = self._identity.model_copy(update={"machines": credentials})
            for callback in self._on_bound:
                callback(self._identity)

    def _admit(self, admitted: Admitted, request: JoinRequest, peer: Peer) -> None:
        before = self._joined.get(admitted.machine)
        if before is not None and not admitted.is_resumed:
            why = (
                f"the agent of machine {admitted.machine} was started again, or has not heard from "
                f"the launcher for {self._heartbeats.timeout_s:g} s"
            )
            self._finish(Lost(admitted.machine, why))
            before = None
        machine = before or JoinedMachine(
            admitted.machine, peer.address, self._run_dir, self._offered(admitted.machine)
        )
        self._joined[machine.name] = machine
        transmit = partial(self._transmit_of, machine, peer.connection)
        transmit(reply_message(self._acceptance(machine, admitted)))
        try:
            machine.tunnel.resume(request.received, transmit)
        except BrokenSession as error:
            self._break(machine, error)
            return
        if before is None:
            for waiting in self._waiting.pop(machine.name, []):
                if not waiting.done():
                    waiting.set_result(machine)
            for callback in self._on_joined:
                asyncio.get_running_loop().call_soon(callback, machine)

    def _acceptance(self, machine: JoinedMachine, admitted: Admitted) -> JoinAcceptance:
        return JoinAcceptance(
            machine=machine.name,
            is_resumed=admitted.is_resumed,
            received=machine.tunnel.received,
            heartbeats=self._heartbeats,
            sockets=tuple(machine.offered),
        )

    # Connections

    def _transmit_of(self, machine: JoinedMachine, connection: bytes, message: bytes) -> None:
        if self._transmit(connection, message):
            return
        assert self._limit is not None
        machine.tunnel.interrupt()
        if self._admission.connection_of(machine.name) == connection:
            # The connection may be open, and full of messages that its machine does not read.
            self._limit.close_connection(self._admission.descriptor_of(machine.name))
        self._admission.on_interrupted(connection)

    def _transmit(self, connection: bytes, message: bytes) -> bool:
        """Whether the connection is open, and takes the message."""
        assert self._socket is not None
        sent: Any = self._socket.send_multipart([connection, message], zmq.NOBLOCK)
        if not sent.done():
            sent.add_done_callback(lambda future: future.exception())
            return True
        error = sent.exception()
        if error is not None and not isinstance(error, zmq.ZMQError):
            raise error
        return error is None

    async def _beat(self) -> None:
        interval_s = self._heartbeats.interval_s
        due_s = monotonic() + interval_s
        while True:
            await asyncio.sleep(max(0.0, due_s - monotonic()))
            late_s = monotonic() - due_s
            if late_s > interval_s:  # what came meanwhile has not been read yet
                self._admission.excuse(late_s)
            due_s = monotonic() + interval_s
            for machine in list(self._joined.values()):
                machine.tunnel.heartbeat()
            for lost in self._admission.silent(monotonic()):
                self._say_bye(lost)
                self._finish(lost)

    def _say_bye(self, lost: Lost) -> None:
        if lost.connection is not None:
            self._transmit(lost.connection, bye_message(lost.reason))

    def _finish(self, lost: Lost | None) -> None:
        if lost is not None:
            self._start(self._lose(lost))

    def _lose(self, lost: Lost) -> Coroutine[Any, Any, None]:
        """Tell of a lost machine; what is left is to close its sockets."""
        machine = self._joined.pop(lost.machine)
        _log.info("machine %s is lost: %s", lost.machine, lost.reason)
        for callback in self._on_lost:
            asyncio.get_running_loop().call_soon(callback, machine, lost.reason)
        return machine.end(lost.reason)


def _peer(identity: bytes, frame: zmq.Frame) -> Peer:
    return Peer(identity, str(frame["User-Id"]), _address(frame), int(frame.get(zmq.SRCFD)))


def _address(frame: zmq.Frame) -> str:
    """The sender's address; IPv4 addresses in their own form also on an IPv6 socket."""
    text = str(frame["Peer-Address"])
    address = ipaddress.ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or text)
