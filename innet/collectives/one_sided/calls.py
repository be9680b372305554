"""The methods of a communicator for one-sided gets and puts."""

from __future__ import annotations

from collections.abc import Callable

from innet.collectives.arrays import Array
from innet.collectives.one_sided.one_sided import OneSided
from innet.collectives.one_sided.records import Combine
from innet.collectives.one_sided.registered_array import RegisteredArray
from innet.collectives.one_sided.remote_arrays import Snapshot
from innet.collectives.timeouts import timeout_or
from innet.collectives.work import Work


class OneSidedCalls:
    """Ranks read and write each other's registered arrays; the owner's program takes no part.

    None of these is a collective: any rank calls them at any time, in any order.
    """

    timeout_s: float

    def __init__(self, one_sided: OneSided, check_rank: Callable[[int], None]) -> None:
        self._one_sided = one_sided
        self._check_owner = check_rank

    def register(self, name: str, array: Array) -> RegisteredArray:
        """Let all ranks read and write ``array`` of this rank under ``name``.

        The memory stays the caller's and is written by others from now on: touch it inside the
        blocks that the result offers. It is served until the group closes; a name stands for one
        array that long.

        Args:
            name: a path such as ``expert/3``.
            array: of any type without Python objects, writable and contiguous.

        Raises:
            CollectiveError: the name is taken, or the array cannot be shared.

        Example::

            expert = comm.register(f"expert/{comm.rank}", weights)
            with expert.writing() as memory:
                memory *= 0.9
            others, version = comm.get("expert/3", source=3)
        """
        self._check_owner(0)
        return self._one_sided.register(name, array)

    def iget(
        self,
        name: str,
        source: int,
        out: Array | None = None,
        *,
        rows: slice | None = None,
        at_least: int = 0,
        behind: int = 0,
        timeout_s: float | None = None,
    ) -> Work[Snapshot]:
        """Start a :meth:`get`."""
        self._check_owner(source)
        limit_s = timeout_or(timeout_s, self.timeout_s)
        return self._one_sided.get(name, source, out, rows, at_least, behind, limit_s)

    def get(
        self,
        name: str,
        source: int,
        out: Array | None = None,
        *,
        rows: slice | None = None,
        at_least: int = 0,
        behind: int = 0,
        timeout_s: float | None = None,
    ) -> Snapshot:
        """The array ``name`` of rank ``source``, as ``(array, version)``.

        All of it is of one version, whatever is put meanwhile, and at least as new as what the
        caller's own finished puts made. It waits until the array is registered. Ranks that get the
        same version fetch the same names: what they have in common crosses each link about once.

        Args:
            out: where it goes, of the same shape and type; by default a new array.
            rows: only these, along the first axis, such as ``slice(128, 256)``.
            at_least: wait for this version.
            behind: be content with a version that is so many older, if somebody got it before: it
                may be in caches, and the owner need not copy the newest.
            timeout_s: deadline; by default that of the communicator's operations.

        Raises:
            MismatchError: the array and ``out`` differ in shape or type.
            DeadlineExceeded: array or version did not come in time; the message names the rank.
            RankFailed: a rank is gone.
        """
        return self.iget(
            name, source, out, rows=rows, at_least=at_least, behind=behind, timeout_s=timeout_s
        ).wait_or_cancel()

    def iput(
        self,
        name: str,
        to: int,
        array: Array,
        *,
        rows: slice | None = None,
        combine: Combine = "replace",
        timeout_s: float | None = None,
    ) -> Work[int]:
        """Start a :meth:`put`; ``array`` may be changed as soon as this returns.

        Puts of one rank that are under way together may take effect in any order.
        """
        self._check_owner(to)
        limit_s = timeout_or(timeout_s, self.timeout_s)
        return self._one_sided.put(name, to, array, rows, combine, limit_s)

    def put(
        self,
        name: str,
        to: int,
        array: Array,
        *,
        rows: slice | None = None,
        combine: Combine = "replace",
        timeout_s: float | None = None,
    ) -> int:
        """Write ``array`` into the array ``name`` of rank ``to``; the version that this made.

        It takes effect at once and as a whole, before this returns: no get sees a part of it, and
        no sum is lost.

        Args:
            array: of the registered array's type, and of its shape or that of ``rows``.
            rows: write only these, along the first axis.
            combine: ``replace`` what is there, or add to it (``sum``).
            timeout_s: deadline; by default that of the communicator's operations.

        Raises:
            MismatchError: shape or type do not fit.
            ReductionOverflow: an integer sum leaves the range of its type.
            DeadlineExceeded: the array was not registered, or the put not done, in time. What is
                under way may still take effect.
            RankFailed: a rank is gone.
        """
        return self.iput(
            name, to, array, rows=rows, combine=combine, timeout_s=timeout_s
        ).wait_or_cancel()
