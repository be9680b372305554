"""What has fallen silent without an end that anybody saw: switches that hang, links that are cut.

A switch hangs when it does not answer the controller. A link is cut when the nodes at both its ends
answer, and neither gets anything through to the other: one end alone may be the fault of its node.
It is used again when both have answered that they hear each other: an end that hangs, or whose
process is gone, tells nothing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from innet.node.control.survivors import Loss, Part, Survivors, silence_of
from innet.settings import RecoverySettings
from innet.telemetry.events import report
from innet.topology.routes import Ends, ends_of

Change = Callable[[Survivors], Survivors]
"""From the network as it was to the network as it is; the same object when nothing has changed."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Silence:
    since_s: float
    given_up: bool = False


class Outages:
    """Follows what nodes answer, and has the network changed accordingly.

    What is silent is gone round. When it has been so for ``recovery.partition_timeout_s``, it is
    not waited for any more: whoever has no other path is told so.
    """

    def __init__(
        self,
        lock: threading.RLock,
        change: Callable[[Change], None],
        settings: RecoverySettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is silent yet.

        Args:
            lock: held in every method, and so when the network changes.
            change: has the network changed.
            settings: how long silence may last.
            clock: tells seconds.
        """
        self._lock = lock
        self._change = change
        self._settings = settings
        self._clock = clock
        self._unheard: dict[str, frozenset[str]] = {}
        self._slow: set[str] = set()
        self._last_round_s = clock()
        self._silent: dict[Part, _Silence] = {}

    def on_silent(self, switch: str) -> None:
        """``switch`` has stopped to answer."""
        with self._lock:
            self._unheard.pop(switch, None)
            self._change(lambda survivors: self._without_switch(survivors, switch))

    def on_heard(self, switch: str) -> None:
        """``switch`` answers again."""
        with self._lock:
            self.forget(switch)
            self._change(lambda survivors: _with_switch_again(survivors, switch))

    def on_answer(self, node: str, unheard: Iterable[str]) -> None:
        """``node`` lives, but exchanges no packets with its neighbours ``unheard``."""
        with self._lock:
            self._unheard[node] = frozenset(unheard)
            self._slow.discard(node)

    def on_round(self, present: Collection[str], slow: Collection[str] = ()) -> None:
        """Nodes were asked.

        Args:
            present: what all others have said, which are gone, counts no more.
            slow: have not answered yet. By what they said before, no link is cut, given up or used
                again now: they may be stopped, and be why their neighbours hear nothing.
        """
        with self._lock:
            self._slow.update(slow)
            for node in set(self._unheard).difference(present):
                del self._unheard[node]
            self._compare_links()
            self._give_up_overdue()

    def hears_any(self, node: str, neighbours: Iterable[str]) -> bool:
        """Whether one of ``neighbours`` that answers gets packets from ``node``."""
        with self._lock:
            return any(self._hears(neighbour, node) for neighbour in neighbours)

    def silent(self, nodes: Iterable[str]) -> list[str]:
        """Those of ``nodes`` that have not answered in the last round."""
        with self._lock:
            return [node for node in nodes if node in self._slow]

    def forget(self, switch: str) -> None:
        """Somebody else knows what has become of ``switch``."""
        with self._lock:
            self._silent.pop(switch, None)

    def _compare_links(self) -> None:
        cut = {
            ends_of(node, peer)
            for node, peers in self._unheard.items()
            for peer in peers
            if node in self._unheard.get(peer, ())
        }
        known = {part for part in self._silent if not isinstance(part, str)}
        for ends in cut - known:
            if not self._slow.isdisjoint(ends):
                continue
            loss = self._cut(ends)
            _log.warning("the link %s; the network works round it", loss.why)
            what = f"the network works round the link {loss.why}"
            report("link_lost", what, ends=list(ends))
            self._silent[ends] = _Silence(self._clock())
            self._lose(ends, loss)
        for ends in known:
            if self._hears(*ends) and self._hears(*reversed(ends)):
                what = f"the link {'--'.join(ends)} carries packets again"
                _log.warning(what)
                report("link_restored", what, ends=list(ends))
                del self._silent[ends]
                self._restore(ends)

    def _hears(self, node: str, peer: str) -> bool:
        return self._answers(node) and peer not in self._unheard[node]

    def _answers(self, node: str) -> bool:
        return node in self._unheard and node not in self._slow

    def _give_up_overdue(self) -> None:
        patience_s = self._settings.partition_timeout_s
        now_s = self._clock()
        round_s, self._last_round_s = now_s - self._last_round_s, now_s
        for part, silence in self._silent.items():
            if not isinstance(part, str) and not all(map(self._answers, part)):
                self._wait_for_witnesses(part, silence, round_s)
            elif not silence.given_up and now_s - silence.since_s >= patience_s:
                silence.given_up = True
                self._lose(part, Loss(silence_of(part, patience_s), returns=False))

    def _wait_for_witnesses(self, ends: Ends, silence: _Silence, round_s: float) -> None:
        """Count no time in which an end may be why the other hears nothing.

        Where the process of an end is gone, the next one finds out anew: it need not give up.
        """
        silence.since_s += round_s
        if silence.given_up and not all(end in self._unheard for end in ends):
            silence.given_up = False
            silence.since_s = self._clock()
            self._lose(ends, self._cut(ends))

    def _cut(self, ends: Ends) -> Loss:
        return Loss(silence_of(ends, self._settings.link_timeout_s), returns=True)

    def _restore(self, part: Part) -> None:
        self._change(lambda survivors: survivors.with_again(part))

    def _lose(self, part: Part, loss: Loss) -> None:
        self._change(lambda survivors: survivors.without(part, loss))

    def _without_switch(self, survivors: Survivors, switch: str) -> Survivors:
        if switch in survivors.lost:
            return survivors
        loss = Loss(silence_of(switch, self._settings.heartbeat_timeout_s), returns=True)
        _log.warning("switch %s; the network works round it", loss.why)
        report("switch_lost", f"the network works round {loss.why}", node=switch, returns=True)
        self._silent[switch] = _Silence(self._clock())
        return survivors.without(switch, loss)


def _with_switch_again(survivors: Survivors, switch: str) -> Survivors:
    if switch not in survivors.lost:
        return survivors
    _log.warning("switch %s answers again", switch)
    what = f"sums and routes return to {switch}, which answers again"
    report("switch_restored", what, node=switch)
    return survivors.with_again(switch)
