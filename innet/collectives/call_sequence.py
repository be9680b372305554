"""The sequence numbers of a group's collective calls, which a call that fails uses as well."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from innet._native import _core
from innet.collectives.completion import failure_for_others
from innet.errors import MismatchError


class _Thread(threading.local):
    """Whether this thread is within a block of :meth:`CallSequence.call`."""

    is_within = False


class EarlierCalls:
    """The calls since the last synchronising call, which the next one compares among ranks.

    A broadcast, reduce, gather or scatter waits for some ranks only, so that no rank may notice
    that two of them named different roots.
    """

    _MOST_LISTED = 8
    _MOST_OF_LAST = _core.MAX_EARLIER_CALLS - len("... (01234567)")

    def __init__(self) -> None:
        self._digest = 0
        self._last: list[tuple[str, int]] = []
        self._is_cut = False
        self._is_known = True

    def clear(self) -> None:
        """Every rank waits for the current call."""
        if self._last or not self._is_known:
            self._digest = 0
            self._last.clear()
            self._is_cut = False
            self._is_known = True

    def add(self, call: str) -> None:
        """Note a call, in words that are the same on every rank."""
        self._digest = zlib.crc32(call.encode(), self._digest)
        if self._last and self._last[-1][0] == call:
            self._last[-1] = (call, self._last[-1][1] + 1)
            return
        self._last.append((call, 1))
        if len(self._last) > self._MOST_LISTED:
            self._is_cut = True
            del self._last[0]

    def add_unknown(self) -> None:
        """Note a call that failed here: nothing says what the other ranks called."""
        self._is_known = False

    def leave_step(self, what: str) -> None:
        """Note that this rank may have missed calls of the others, unless they note the same."""
        self.clear()
        self.add(f"{what} failed")

    def for_next(self, synchronising: bool = True) -> tuple[str, str]:
        """The text that the next call compares among ranks, and the list for its error.

        The first is the calls, or the last of them and a digest with a list as the second.
        """
        if not synchronising:
            return "", ""
        if not self._is_known:
            return _core.UNKNOWN_CALLS, ""
        if not self._last:
            return "", ""
        listed = ", ".join(f"{n} x {call}" if n > 1 else call for call, n in self._last)
        if not self._is_cut and len(listed) <= _core.MAX_EARLIER_CALLS:
            return listed, ""
        last = self._last[-1][0][: self._MOST_OF_LAST]
        return f"...{last} ({self._digest:08x})", listed


class CallSequence:
    """Numbers the collective calls of one rank of a group.

    All ranks make the same calls in the same order, and a contribution carries the number of its
    call. So each call has to use its numbers, whatever becomes of it: one that fails before it
    contributed publishes its failure under them.

    Args:
        node: of this rank.
        stream: of the group's operations at the node.
        who: this rank as messages name it, such as ``rank 0 (h0)``; an attribute.
        in_flight: operations of the group that may be under way at once.
        start_barrier: starts a barrier with a number, in the background.

    Attributes:
        earlier: the calls that the next synchronising one compares.
    """

    def __init__(
        self,
        node: _core.NodeHandle,
        stream: int,
        who: str,
        in_flight: int,
        start_barrier: Callable[[int], None],
    ) -> None:
        self._node = node
        self._stream = stream
        self.who = who
        self._in_flight = in_flight
        self._start_barrier = start_barrier
        self._next = 0
        self._counted = 0
        self._since_synchronised = 0
        self._disagreement: MismatchError | None = None
        self.earlier = EarlierCalls()
        self._thread = _Thread()

    @property
    def next(self) -> int:
        """The number of the next call."""
        return self._next

    def take(self, count: int = 1) -> range:
        """Numbers for the operations of the current call."""
        numbers = range(self._next, self._next + count)
        self._next += count
        return numbers

    @contextmanager
    def call(
        self,
        what: str,
        numbers: int = 1,
        synchronising: bool = True,
        fail_rounds: Callable[[], None] | None = None,
    ) -> Iterator[None]:
        """See :meth:`innet.collectives.Communicator.collective`.

        ``fail_rounds`` fails the rounds that the block has not begun when it ends or raises.
        """
        first, is_outermost = self._next, not self._thread.is_within
        self._thread.is_within = True
        try:
            if is_outermost and synchronising:
                self._raise_disagreement()
            yield
            # All ranks use the same numbers, also when the block made fewer calls here than there.
            if self._next < first + numbers and not synchronising:
                self.earlier.add_unknown()
            self.fail(range(self._next, first + numbers), what, "it ended without this call")
            self._next = max(self._next, first + numbers)
            if fail_rounds is not None:
                fail_rounds()
        except BaseException as error:
            if not synchronising:
                self.earlier.add_unknown()
            # An operation may have been started under some of the numbers: the node keeps it.
            self.fail(range(first, first + numbers), what, error)
            self._next = max(self._next, first + numbers)
            if fail_rounds is not None:
                fail_rounds()
            raise
        finally:
            # Calls within the block do not count: a rank on which it fails may not have made them,
            # and a barrier between them would take one of the numbers that are the block's.
            if is_outermost:
                self._thread.is_within = False
                try:
                    self._keep_in_step(synchronising)
                except BaseException:  # an interrupt: the other ranks count this call all the same
                    self._keep_in_step(synchronising)
                    raise
            elif synchronising:
                self.earlier.clear()

    def take_single(self) -> int | None:
        """The number of a synchronising call of one operation, which counts as made.

        ``None`` when only :meth:`call` can make it: within a block, or after a disagreement. A call
        that fails must publish this by :meth:`fail`.
        """
        if self._thread.is_within or self._disagreement is not None or self._next != self._counted:
            return None
        seq = self._next
        self.earlier.clear()
        self._since_synchronised, self._next, self._counted = 0, seq + 1, seq + 1
        return seq

    def disagree(self, error: MismatchError) -> None:
        """Record a disagreement about a call that does not wait for every rank.

        Ranks that did not wait cannot know. So the next call that all ranks wait for fails with
        the same error: here, and through this rank's contribution everywhere.
        """
        self._disagreement = error

    def _raise_disagreement(self) -> None:
        error, self._disagreement = self._disagreement, None
        if error is not None:
            raise MismatchError(
                f"ranks called different operations in an earlier call: {error}. Not every rank "
                "could notice, so this call fails on all of them, once; call it again"
            )

    def fail(self, numbers: range, what: str, error: BaseException | str) -> None:
        """Publish failures in place of the contributions with these numbers.

        Nothing happens to numbers under which an operation was started, or that were given up.
        """
        if not numbers:
            return  # after every call that went well: telling the node would wake its thread
        status, why = failure_for_others(self.who, what, error)
        self._node.fail(self._stream, numbers.start, numbers.stop, status, why)

    def _keep_in_step(self, synchronising: bool) -> None:
        """Count a call, and start a barrier when nothing else would be one.

        In a row of broadcasts, gathers and the like the root does not learn that all ranks have
        them. After a barrier in the background it can drop its contributions.
        """
        if synchronising:
            self.earlier.clear()
        if self._next == self._counted:
            return  # it used no number, or was counted before an interrupt
        end = self._next
        since = 0 if synchronising else self._since_synchronised + 1
        if since >= self._in_flight:
            since = 0
            self._start_barrier(end)
            end += 1
        self._since_synchronised, self._next, self._counted = since, end, end
