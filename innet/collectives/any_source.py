"""Receiving from whichever rank comes first.

A message is fetched by its name, which says who sends it. So to receive from any rank is to ask all
of them for their next message with the tag; the first that comes is taken, and the questions to the
others stay open for the receives that follow. As in MPI, messages of one sender are taken in the
order they were sent, and a message goes to the first receive that was posted and fits it.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

import numpy as np

from innet._native import _core
from innet.collectives.arrays import Array
from innet.collectives.point_to_point import LOST_MESSAGE, PointToPoint
from innet.collectives.posted import Posted
from innet.collectives.work import Completion
from innet.errors import CollectiveError

_SHORTEST_S = 0.001
"""For a question whose receive is about to end; so that asking again takes no processor."""


class Receive(Posted):
    """One receive that waits for its message.

    Attributes:
        memory: where the message goes.
        source: the only rank it takes a message from, or ``None`` for any.
        deadline_s: until when to ask, on the monotonic clock.
        sender: whose message it got, -1 before.
    """

    def __init__(self, memory: Array, source: int | None, timeout_s: float) -> None:
        missing = "no rank sent one" if source is None else f"rank {source} did not send one"
        super().__init__(timeout_s, f"{missing} within {timeout_s:g} s")
        self.deadline_s = time.monotonic() + timeout_s
        self.memory = memory
        self.source = source
        self.sender = -1

    def takes(self, source: int) -> bool:
        """Whether a message of rank ``source`` would do."""
        return self.source is None or self.source == source


@dataclass(eq=False)
class _Question:
    """A fetch of one sender's next message."""

    operation: int
    seq: int
    buffer: Array
    answered: bool = False

    def fits(self, memory: Array) -> bool:
        return self.buffer.dtype == memory.dtype and self.buffer.size == memory.size


@dataclass
class _Tag:
    """What goes on under one tag."""

    waiting: list[Receive] = field(default_factory=list)
    questions: dict[int, _Question] = field(default_factory=dict)
    seqs: dict[int, int] = field(default_factory=dict)

    def first_for(self, source: int) -> Receive | None:
        return next((receive for receive in self.waiting if receive.takes(source)), None)


class AnySource:
    """The receives of one communicator under tags that were received from any source."""

    def __init__(
        self,
        node: _core.NodeHandle,
        collector: Completion,
        messages: PointToPoint,
        ranks: int,
        rank: int,
    ) -> None:
        """``rank`` is this one, of ``ranks``."""
        self._node = node
        self._collector = collector
        self._messages = messages
        self._ranks = ranks
        self._rank = rank
        self._lock = threading.RLock()
        self._tags: dict[int, _Tag] = {}

    def knows(self, tag: int) -> bool:
        """Whether receives under this tag, from one source too, have to come here."""
        return tag in self._tags

    def post(self, memory: Array, source: int | None, tag: int, timeout_s: float) -> Receive:
        """Receive the next message with ``tag`` of rank ``source``, or of any.

        Raises:
            CollectiveError: this rank is the only one.
        """
        if self._ranks == 1:
            raise CollectiveError(
                "recv_any() in a group of one rank: nobody can send it anything; ask for the "
                "group's size first"
            )
        receive = Receive(memory, source, timeout_s)
        with self._lock:
            state = self._tags.setdefault(tag, _Tag())
            state.waiting.append(receive)
            receive.give_up = lambda: self._give_up(tag, receive)
            self._ask(tag, state)
        return receive

    # It may have ended by itself meanwhile, at its deadline; so whoever ends it claims it first.

    def _give_up(self, tag: int, receive: Receive) -> None:
        with self._lock:
            waiting = self._tags[tag].waiting
            if receive in waiting:
                waiting.remove(receive)

    def _ask(self, tag: int, state: _Tag) -> None:
        """Have a question open to everyone whose next message somebody waits for."""
        for source in range(self._ranks):
            receive = state.first_for(source)
            if receive is None or source == self._rank:
                continue
            question = state.questions.get(source)
            if question is not None and question.fits(receive.memory):
                if question.answered:
                    self._take(tag, state, source, question, receive)
                continue
            if question is not None:
                self._node.cancel(question.operation)
            self._open(tag, state, source, receive)

    def _open(self, tag: int, state: _Tag, source: int, receive: Receive) -> None:
        seq = state.seqs.get(source)
        if seq is None:
            seq = state.seqs[source] = self._messages.next_incoming(source, tag)
        buffer = np.empty_like(receive.memory)
        left_s = max(_SHORTEST_S, receive.deadline_s - time.monotonic())
        operation = self._messages.fetch(buffer, source, tag, seq, left_s)
        question = state.questions[source] = _Question(operation, seq, buffer)
        self._collector.deliver(
            operation,
            lambda status, detail: self._answered(tag, source, question, status, detail),
        )

    def _answered(
        self, tag: int, source: int, question: _Question, status: int, detail: str
    ) -> None:
        with self._lock:
            state = self._tags[tag]
            if state.questions.get(source) is not question:
                return  # given up for one that fits
            receive = state.first_for(source)
            if status == _core.STATUS_DONE:
                question.answered = True
                if receive is not None:
                    self._ask(tag, state)
                return
            del state.questions[source]
            # The question may be older than the receive, and have had less time than that has.
            early = status == _core.STATUS_DEADLINE_EXCEEDED
            if receive is not None and early and time.monotonic() < receive.deadline_s:
                receive = None
            ended = [] if receive is None else [receive]
            if status == _core.STATUS_ABORTED:  # nothing of that rank comes any more
                ended = [one for one in state.waiting if one.takes(source)]
            state.waiting = [one for one in state.waiting if one not in ended]
            ended = [one for one in ended if one.claim()]
            if status in LOST_MESSAGE:
                del state.seqs[source]  # the receive has had its message, as any other would
                self._messages.confirm(source, tag, question.seq)
        for one in ended:
            one.end(status, detail)
        with self._lock:
            self._ask(tag, state)

    def _take(
        self, tag: int, state: _Tag, source: int, question: _Question, receive: Receive
    ) -> None:
        state.waiting.remove(receive)
        if not receive.claim():
            self._ask(tag, state)  # the message is for the next
            return
        del state.questions[source]
        del state.seqs[source]
        np.copyto(receive.memory.reshape(-1), question.buffer.reshape(-1))
        receive.sender = source
        self._messages.confirm(source, tag, question.seq)
        receive.end(_core.STATUS_DONE, "")
        self._ask(tag, state)
