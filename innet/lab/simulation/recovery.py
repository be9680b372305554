"""When a simulation's network is known to have lost a part, or to have it back.

A run's controller hears it from whoever started the process, or by its heartbeats. Here the times
are those, and nobody sends heartbeats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from innet.node.control.survivors import Loss, Part, Survivors, silence_of
from innet.settings import RecoverySettings

_END_NOTICED_S = 0.01
"""After which whoever started a process knows that it has ended, and has told all nodes."""

Delay = Callable[[float, Callable[[], None]], None]
"""Calls a function so many seconds from now."""


class Recovery:
    """Follows what happens to switches and links, and has the network changed when that is known.

    What ends sooner than it is known changes nothing.
    """

    def __init__(
        self,
        settings: RecoverySettings,
        delay: Delay,
        change: Callable[[Callable[[Survivors], Survivors]], None],
    ) -> None:
        """
        Args:
            settings: how long silence lasts until it counts.
            delay: lets virtual time pass.
            change: has the network changed, from what it was to what it is.
        """
        self._settings = settings
        self._delay = delay
        self._change = change
        self._changes: Counter[Part] = Counter()
        self._silent: set[Part] = set()

    def on_crash(self, switch: str) -> None:
        """The process of a switch has ended; it is waited for."""
        self._silent.discard(switch)
        loss = Loss(f"{switch} crashed", returns=True)
        self._later(switch, _END_NOTICED_S, lambda left: left.without(switch, loss))

    def on_restart(self, switch: str) -> None:
        """A switch has come back, and says so."""
        self._later(switch, 0.0, lambda left: left.with_again(switch))

    def on_silence(self, part: Part) -> None:
        """A switch hangs, or a link carries nothing any more."""
        if part in self._silent:
            return
        self._silent.add(part)
        link = not isinstance(part, str)
        patience_s = self._settings.partition_timeout_s
        known_s = self._settings.link_timeout_s if link else self._settings.heartbeat_timeout_s
        gone = Loss(silence_of(part, known_s), returns=True)
        given_up = Loss(silence_of(part, patience_s), returns=False)
        self._later(part, known_s, lambda left: left.without(part, gone))
        if patience_s != float("inf"):
            self._also_later(part, known_s + patience_s, lambda left: left.without(part, given_up))

    def on_sound(self, part: Part) -> None:
        """A switch answers again, or a link carries packets again, if it was silent."""
        if part not in self._silent:
            return
        self._silent.remove(part)
        heard_s = self._settings.heartbeat_interval_s
        self._later(part, heard_s, lambda left: left.with_again(part))

    def _later(self, part: Part, after_s: float, to: Callable[[Survivors], Survivors]) -> None:
        self._changes[part] += 1
        self._also_later(part, after_s, to)

    def _also_later(self, part: Part, after_s: float, to: Callable[[Survivors], Survivors]) -> None:
        number = self._changes[part]

        def happen() -> None:
            if self._changes[part] == number:
                self._change(to)

        if after_s > 0:
            self._delay(after_s, happen)
        else:
            happen()
