"""A controller that a test feeds by hand: requests, times, and what nodes answer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

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
from innet.cluster.control.jobs import Job, KnownJob
from innet.cluster.control.liveness import Pong
from innet.errors import ControlError, NoAnswer
from innet.node.messages import NodeReading
from innet.security import JobTrust

Answer = Callable[[str, str, Mapping[str, Any]], Any]
"""Returns a node's answer to a method with parameters; raises to refuse."""


class HandDriven:
    """Carries out a controller's actions at once, unless a test holds them back.

    A method of the controller is called as one of this: ``driven.join_group("g0", "inc", ...)``.

    Attributes:
        told: each message that a node was sent: node, method, parameters.
        reports: the events of the run.
        now_s: the time.
        silent: nodes that answer nothing.
        reading_of: returns the counters with which a node answers a ping.
        job: that :meth:`open_job` opened last.
    """

    job: Job

    def __init__(self, controller: Controller, answer: Answer = lambda *_: None) -> None:
        self.controller = controller
        self.answer = answer
        self.told: list[tuple[str, str, Mapping[str, Any]]] = []
        self.reports: list[ReportEvent] = []
        self.now_s = 0.0
        self.silent: set[str] = set()
        self.reading_of: Callable[[str], NodeReading | None] = lambda _node: None
        self.watched: dict[str, Watch] = {}
        self.killed: list[str] = []
        self.pings: list[PingNode] = []
        self.held: list[Send] | None = None
        """Messages that nodes have not answered yet, while a test holds their answers back."""
        self._replies: dict[object, Respond] = {}
        self._requests = 0
        self._carry_out()

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            handler = self.controller.methods[method]
            bound = inspect.signature(handler).bind_partial(*arguments)
            return self.reply(self.request(method, **bound.arguments, **named))

        if method not in self.controller.methods:
            raise AttributeError(method)
        return call

    def request(self, method: str, **params: Any) -> int:
        """Send a request; its number, for :meth:`reply`."""
        self._requests += 1
        self.controller.on_request(self._requests, method, params, self.now_s)
        self._carry_out()
        return self._requests

    def has_reply(self, request: int) -> bool:
        """Whether the controller has replied."""
        return request in self._replies

    def reply(self, request: int) -> Any:
        """The reply to a request, as its client gets it."""
        reply = self._replies.pop(request)
        if reply.error is not None:
            raise reply.error
        return reply.result

    def release(self) -> None:
        """Let nodes answer what was held back, and from now on at once."""
        held, self.held = self.held or [], None
        for send in held:
            self._deliver(send)
        self._carry_out()

    def end_process(self, node: str, *, is_supervised: bool = False, why: str = "") -> None:
        """The watched process of ``node`` ends."""
        watch = self.watched.pop(node)
        self.controller.on_process_ended(
            node, watch.incarnation, self.now_s, is_supervised=is_supervised, why=why
        )
        self._carry_out()

    def pass_time(self, until_s: float, unheard: Mapping[str, Sequence[str]] | None = None) -> None:
        """Let time pass; nodes answer pings at once, with the neighbours that they do not hear."""
        while True:
            timer_s = self.controller.next_timer_s
            due = [ping for ping in self.pings if ping.node not in self.silent]
            if due:
                for ping in due:
                    self.pings.remove(ping)
                    heard = tuple((unheard or {}).get(ping.node, ()))
                    self.pong(ping, heard)
            elif timer_s is not None and timer_s <= until_s:
                self.now_s = max(self.now_s, timer_s)
                self.controller.on_timer(self.now_s)
                self._carry_out()
            else:
                self.now_s = until_s
                return

    def pong(self, ping: PingNode, unheard: Sequence[str] | None) -> None:
        """``ping`` is answered, or not in time (``None``)."""
        answer = None if unheard is None else tuple(unheard)
        reading = self.reading_of(ping.node)
        self.controller.on_pong(Pong(ping.node, ping.incarnation, answer, reading), self.now_s)
        self._carry_out()

    def told_by(self, method: str) -> dict[str, Mapping[str, Any]]:
        """The last parameters of ``method`` that each node was sent."""
        return {node: params for node, said, params in self.told if said == method}

    def open_job(self, hosts: Sequence[str], name: str | None = None, **known: Any) -> Job:
        """A new job on ``hosts``, which all switches serve."""
        job: Job = self.admit_job(name, hosts)
        keys = known.pop("keys", JobTrust(signing=None, trusted=()))
        opened = KnownJob(job=job, keys=keys, **known)
        self.reply(self.request("open_job", **opened.model_dump()))
        self.job = job
        return job

    def close_job(self, job: Job) -> None:
        """The job is over."""
        self.reply(self.request("close_job", **KnownJob(job=job).model_dump()))

    def _carry_out(self) -> None:
        while actions := self.controller.take():
            for action in actions:
                self._act(action)

    def _act(self, action: Action) -> None:
        match action:
            case Send():
                if self.held is None:
                    self._deliver(action)
                else:
                    self.held.append(action)
            case Respond():
                self._replies[action.request] = action
            case PingNode():
                self.pings.append(action)
            case Watch():
                self.watched[action.node] = action
            case Unwatch():
                self.watched.pop(action.node, None)
            case Kill():
                watch = self.watched.get(action.node)
                if watch is None or not watch.is_attached:
                    self.killed.append(action.node)
            case Compute():
                self.controller.on_computed(action.function(), self.now_s)
            case ReportEvent():
                self.reports.append(action)

    def _deliver(self, send: Send) -> None:
        outcomes = [self._outcome(send.node, *message) for message in send.messages]
        self.controller.on_sent(send.number, outcomes, self.now_s)

    def _outcome(self, node: str, method: str, params: Mapping[str, Any]) -> MessageOutcome:
        if node in self.silent:
            return MessageOutcome(error=NoAnswer(f"{node} did not answer {method!r}"))
        self.told.append((node, method, params))
        try:
            return MessageOutcome(self.answer(node, method, params))
        except ControlError as error:
            return MessageOutcome(error=error)
