"""Runs a controller on an event loop: its socket, its messages to nodes, and its timers."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from innet.cluster.control.actions import (
    Action,
    Compute,
    Kill,
    MessageOutcome,
    PingNode,
    ReportEvent,
    Respond,
    Send,
    Unwatch,
    Watch,
)
from innet.cluster.control.controller import Controller
from innet.cluster.control.controller_server import ControllerServer, Serve
from innet.cluster.control.liveness import Pong
from innet.cluster.control.processes import LocalProcesses, Processes, WatchedProcess
from innet.cluster.control.worker_requests import checked_request, request_of_machine
from innet.cluster.requests import RequestClient
from innet.errors import ControlError, InnetError, NoAnswer
from innet.node.messages import PingReply
from innet.node.requests import ControlRequest
from innet.telemetry.events import report
from innet.validation_messages import first_message

_MAX_PONG_BYTES = 1 << 22
_MAX_REPORT_BYTES = 1 << 24
_WATCH_PAUSE_S = 0.5
"""Before another attempt to watch a process."""
_LOST_AFTER_S = 1.5
"""How long the socket of a live process refuses connections before it counts as closed."""
_LOST_POLL_S = 0.25

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Watch:
    """A process of a node that is to be watched.

    Attributes:
        listens: whether its node has opened its socket.
        process: ``None`` while it cannot be watched yet.
        opening: until it can.
        is_killed: whether to kill it then.
    """

    action: Watch
    listens: bool = False
    process: WatchedProcess | None = None
    opening: asyncio.Task[None] | None = None
    is_killed: bool = False


@dataclass(frozen=True, slots=True)
class OtherMachine:
    """A machine whose processes have a socket of the controller to themselves.

    Attributes:
        nodes: for which they may speak.
    """

    socket: Path
    nodes: Collection[str]


class ControllerDriver:
    """Serves a controller's requests and carries out its actions, as an async context manager."""

    def __init__(
        self,
        controller: Controller,
        path: Path,
        node_sockets: Mapping[str, Path],
        processes: Processes | None = None,
        elsewhere: Mapping[str, Processes] | None = None,
        machines: Mapping[str, OtherMachine] | None = None,
    ) -> None:
        """
        Args:
            path: of the socket for this machine.
            processes: of this machine; by default none that the launcher has started.
            elsewhere: by node on another machine, that machine's processes.
            machines: the other machines, by their names.
        """
        self._controller = controller
        self._node_sockets = node_sockets
        self._local = processes or LocalProcesses(is_started=lambda _pid: False)
        self._elsewhere = elsewhere or {}
        sockets: dict[Path, Serve] = {path: self._on_own_request}
        for name, machine in (machines or {}).items():
            sockets[machine.socket] = partial(self._on_request_of, name, machine.nodes)
        self._server = ControllerServer(
            sockets, who="the controller", bounded=sockets.keys() - {path}
        )
        self._requests = 0
        self._replies: dict[int, asyncio.Future[Any]] = {}
        self._mailboxes: dict[str, _Mailbox] = {}
        self._pings: dict[str, asyncio.Task[None]] = {}
        self._ping_clients: dict[str, RequestClient] = {}
        self._watches: dict[str, _Watch] = {}
        self._attaching: dict[tuple[str, int], WatchedProcess] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def __aenter__(self) -> Self:
        self._carry_out()
        await self._server.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop serving when all messages in progress have been sent."""
        await self._server.__aexit__()
        await asyncio.gather(*(mailbox.close() for mailbox in self._mailboxes.values()))
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for ping in self._pings.values():
            ping.cancel()
        await asyncio.gather(*self._pings.values(), return_exceptions=True)
        for client in self._ping_clients.values():
            client.close()
        for node in list(self._watches):
            self._unwatch(node)
        await asyncio.gather(*(processes.wait() for processes in set(self._elsewhere.values())))

    # Events

    async def _on_own_request(self, request: ControlRequest) -> Any:
        """A request of the launcher, or of another process of this machine."""
        return await self._on_request(checked_request(request))

    async def _on_request_of(
        self, machine: str, nodes: Collection[str], request: ControlRequest
    ) -> Any:
        """A request of a process of another machine."""
        return await self._on_request(request_of_machine(request, machine, nodes))

    async def _on_request(self, request: ControlRequest) -> Any:
        attaching = await self._open_attaching(request)
        if request.method == "routes":  # the first request of a worker whose node listens
            self._note_listening(str(request.params.get("node")))
        self._requests += 1
        number = self._requests
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._replies[number] = reply
        try:
            self._controller.on_request(number, request.method, request.params, time.monotonic())
            self._carry_out()
            return await reply
        finally:
            self._replies.pop(number, None)
            if attaching is not None and (process := self._attaching.pop(attaching, None)):
                process.close()  # it was refused

    async def _open_attaching(self, request: ControlRequest) -> tuple[str, int] | None:
        """Take hold of the process that asks to attach: its node and pid, or ``None``."""
        if request.method != "attach":
            return None
        node, pid = str(request.params["node"]), int(request.params["pid"])
        if (node, pid) not in self._attaching:
            process = await self._open(node, pid)
            if self._attaching.setdefault((node, pid), process) is not process:
                process.close()  # another request of it came meanwhile
        self._take_ended_processes()
        return node, pid

    async def _open(self, node: str, pid: int) -> WatchedProcess:
        try:
            return await self._processes_of(node).open(pid)
        except OSError as error:
            raise ControlError(
                f"{node} names process {pid}, which cannot be watched: {error.strerror}. Does it "
                f"run on {'this machine' if node not in self._elsewhere else 'that machine'}?"
            ) from error

    def _processes_of(self, node: str) -> Processes:
        return self._elsewhere.get(node, self._local)

    def _on_sent(self, number: int, outcomes: Sequence[MessageOutcome]) -> None:
        self._controller.on_sent(number, outcomes, time.monotonic())
        self._carry_out()

    def _on_timer(self) -> None:
        self._controller.on_timer(time.monotonic())
        self._carry_out()

    def _on_pong(self, pong: Pong) -> None:
        self._controller.on_pong(pong, time.monotonic())
        self._carry_out()

    def _on_process_ended(self, watch: _Watch, why: str) -> None:
        """``why``: if it is not an end of the process itself."""
        action, process = watch.action, watch.process
        if self._watches.get(action.node) is not watch:
            return
        self._unwatch(action.node)
        self._controller.on_process_ended(
            action.node,
            action.incarnation,
            time.monotonic(),
            is_supervised=process is not None and process.is_supervised,
            why=why,
        )
        self._carry_out()

    def _take_ended_processes(self) -> None:
        """Before the next request: a successor's request may precede the end in the loop."""
        for watch in list(self._watches.values()):
            if watch.process is not None and watch.process.has_ended():
                self._on_process_ended(watch, "")

    # Actions

    def _carry_out(self) -> None:
        if self._is_closed:
            return
        for action in self._controller.take():
            try:
                self._act(action)
            except Exception as error:  # the actions behind it are carried out all the same
                what = f"the controller could not carry out a {type(action).__name__}"
                asyncio.get_running_loop().call_exception_handler(
                    {"message": what, "exception": error}
                )
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if (at_s := self._controller.next_timer_s) is not None:
            delay_s = max(0.0, at_s - time.monotonic())
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._on_timer)

    def _act(self, action: Action) -> None:
        match action:
            case Send():
                self._mailbox(action.node).put(action)
            case PingNode():
                self._ping(action)
            case Respond():
                self._respond(action)
            case Watch():
                self._watch(action)
            case Unwatch():
                self._unwatch(action.node)
            case Kill():
                self._kill(action.node)
            case Compute():
                threading.Thread(
                    target=self._compute,
                    args=(action, asyncio.get_running_loop()),
                    name="innet-compute",
                    daemon=True,  # the end of the process does not wait for it
                ).start()
            case ReportEvent():
                _log.warning("%s", action.text)
                report(action.kind, action.text, **action.fields)

    def _compute(self, action: Compute, loop: asyncio.AbstractEventLoop) -> None:
        """Call the function on a new thread."""
        result = None
        try:
            result = action.function()
        except Exception:
            _log.exception("the controller met with a defect, and goes on")
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(self._on_computed, result)

    def _on_computed(self, result: Any) -> None:
        self._controller.on_computed(result, time.monotonic())
        self._carry_out()

    def _respond(self, action: Respond) -> None:
        assert isinstance(action.request, int)
        reply = self._replies.pop(action.request, None)
        if reply is None or reply.done():  # the driver is closing
            return
        if action.error is None:
            reply.set_result(action.result)
        else:
            reply.set_exception(action.error)

    def _mailbox(self, node: str) -> _Mailbox:
        if node not in self._mailboxes:
            self._mailboxes[node] = _Mailbox(node, self._node_sockets[node], self._on_sent)
        return self._mailboxes[node]

    def _ping(self, ping: PingNode) -> None:
        if (earlier := self._pings.pop(ping.node, None)) is not None:
            earlier.cancel()  # the answer of a process that is gone
            self._ping_clients.pop(ping.node).close()
        self._pings[ping.node] = asyncio.ensure_future(self._pong(ping))

    async def _pong(self, ping: PingNode) -> None:
        node = ping.node
        if node not in self._ping_clients:
            self._ping_clients[node] = RequestClient(
                self._node_sockets[node], who=node, max_bytes=_MAX_PONG_BYTES
            )
        client = self._ping_clients[node]
        asking = asyncio.ensure_future(client.request("ping", {}, ping.timeout_s))
        try:
            while not asking.done() and not self._is_lost(ping, client):
                await asyncio.wait([asking], timeout=_LOST_POLL_S)
        finally:
            asking.cancel()
            await asyncio.wait([asking])
        pong = Pong(node, ping.incarnation, None)
        try:
            reply = PingReply.model_validate(asking.result())
            self._note_listening(node)
            pong = replace(pong, unheard=reply.unheard, reading=reply.reading)
        except asyncio.CancelledError:
            pong = replace(pong, lost="refused" if client.is_refused else "ended")
        except InnetError as error:
            _log.debug("%s did not answer a ping: %s", node, error)
        except ValidationError as error:  # of no use, like silence
            _log.warning("%s answered a ping with something else: %s", node, first_message(error))
        del self._pings[node]
        self._on_pong(pong)

    def _is_lost(self, ping: PingNode, client: RequestClient) -> bool:
        """Whether the process of a worker has closed the socket of its node, and runs on."""
        watch = self._watches.get(ping.node)
        if watch is None or not watch.listens or client.lost_s is None:
            return False
        return asyncio.get_running_loop().time() - client.lost_s >= _LOST_AFTER_S

    def _note_listening(self, node: str) -> None:
        watch, client = self._watches.get(node), self._ping_clients.get(node)
        if watch is not None and not watch.listens:
            watch.listens = True
            if client is not None:
                client.lost_s, client.is_refused = None, False  # that was the process before it

    def _watch(self, action: Watch) -> None:
        self._unwatch(action.node)
        watch = self._watches[action.node] = _Watch(action)
        process = self._attaching.pop((action.node, action.pid), None)
        if process is not None:
            self._follow(watch, process)
        else:
            watch.opening = asyncio.ensure_future(self._follow_later(watch))

    async def _follow_later(self, watch: _Watch) -> None:
        """Watch a process that has attached to the controller before this one."""
        action = watch.action
        processes = self._processes_of(action.node)
        why = ""
        while True:
            try:
                process = await processes.open(action.pid)
            except ProcessLookupError:
                break
            except ControlError as error:
                why = str(error)
                break
            except OSError as error:  # too few descriptors, for example: that passes
                _log.warning(
                    "process %d of %s cannot be watched yet: %s", action.pid, action.node, error
                )
                await asyncio.sleep(_WATCH_PAUSE_S)
            else:
                watch.opening = None
                self._follow(watch, process)
                return
        watch.opening = None
        self._on_process_ended(watch, why)

    def _follow(self, watch: _Watch, process: WatchedProcess) -> None:
        watch.process = process
        process.watch(partial(self._on_process_ended, watch))
        if watch.is_killed:
            process.kill()

    def _unwatch(self, node: str) -> None:
        watch = self._watches.pop(node, None)
        if watch is None:
            return
        if watch.opening is not None:
            watch.opening.cancel()
        if watch.process is not None:
            watch.process.close()

    def _kill(self, node: str) -> None:
        """Kill the process of a node, unless another launcher started it: that one restarts it."""
        watch = self._watches.get(node)
        if watch is None or watch.action.is_attached:
            return
        if watch.process is not None:
            watch.process.kill()
        else:
            watch.is_killed = True


class _Mailbox:
    """Sends one node its messages, in order."""

    def __init__(
        self, node: str, path: Path, on_sent: Callable[[int, Sequence[MessageOutcome]], None]
    ) -> None:
        self._node = node
        self._on_sent = on_sent
        # It stays connected: a connection outlives the socket's file, which somebody may remove.
        self._client = RequestClient(path, who=node, max_bytes=_MAX_REPORT_BYTES)
        self._waiting: deque[tuple[Send, float]] = deque()
        self._sending: asyncio.Task[None] | None = None

    def put(self, send: Send) -> None:
        """Send this after all before it."""
        self._waiting.append((send, time.monotonic() + send.timeout_s))
        if self._sending is None:
            self._sending = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        """Until everything has been sent, or given up; then close the connection."""
        if self._sending is not None:
            await self._sending
        self._client.close()

    async def _run(self) -> None:
        client = self._client
        no_answer: NoAnswer | None = None
        try:
            while self._waiting:
                send, deadline_s = self._waiting.popleft()
                if time.monotonic() < deadline_s:
                    no_answer = None
                outcomes: list[MessageOutcome] = []
                for method, params in send.messages:
                    if no_answer is None:
                        outcome = await _outcome(client, method, params, send.timeout_s)
                        if isinstance(outcome.error, NoAnswer):
                            no_answer = outcome.error
                    else:
                        outcome = MessageOutcome(error=no_answer)
                    outcomes.append(outcome)
                self._on_sent(send.number, outcomes)
        finally:
            self._sending = None


async def _outcome(
    client: RequestClient, method: str, params: Mapping[str, Any], timeout_s: float
) -> MessageOutcome:
    try:
        return MessageOutcome(await client.request(method, params, timeout_s))
    except ControlError as error:
        _log.info("%s failed: %s", method, error)
        return MessageOutcome(error=error)
    except Exception as error:  # the messages behind it are sent all the same
        _log.exception("%s could not be sent", method)
        return MessageOutcome(error=ControlError(f"{type(error).__name__}: {error}"))
