"""The communicator: the operations that a worker's program calls."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from innet.collectives.arrays import Array
from innet.collectives.group import AtFirstUse
from innet.collectives.group_member import GroupMember
from innet.collectives.messages import Messages
from innet.collectives.objects import ObjectData, Objects
from innet.collectives.operation import (
    allgather,
    allreduce,
    allreduce_q8,
    alltoall,
    barrier,
    broadcast,
    gather,
    reduce,
    reduce_scatter,
    scatter,
)
from innet.collectives.repeated import RepeatedAllreduces, repeating
from innet.collectives.runner import OperationRunner
from innet.collectives.transfers import Transfers
from innet.collectives.work import Work, blocking, non_blocking
from innet.worker.job_file import OnDeath

if TYPE_CHECKING:  # imported when first called: most programs need none of them
    from innet.collectives.keyed import KeyedReductions
    from innet.collectives.keyed.pairs import KeysAndValues
    from innet.collectives.one_sided import Combine, OneSided, RegisteredArray, Snapshot
    from innet.collectives.partial import KOfN, PartialReductions, PartialSum


class Communicator(GroupMember):
    """Collectives, messages, objects and shared arrays among the ranks of one group.

    All ranks call the same collectives in the same order. ``allreduce`` waits for its end and
    returns the result; ``iallreduce`` has the same parameters, starts the operation and returns its
    :class:`Work`, which can be waited for or awaited. Every operation has these two forms. The
    arguments of an operation stay as they are until its end, unless its documentation allows more.

    Arrays are NumPy's. A result goes into ``out`` when that is given (which may be the input: in
    place), else into a new array. ``timeout_s`` is an operation's deadline, by default the
    communicator's :attr:`timeout_s`.

    Every operation may raise, in addition to what its documentation says:

    * CollectiveError: an argument does not fit.
    * MismatchError: ranks called different operations, shapes or types.
    * ReductionOverflow: a sum of integers does not fit its type (:attr:`overflow`).
    * RankFailed, DeadlineExceeded: a rank has failed, or did not contribute before the deadline.
    """

    def __init__(
        self,
        runner: OperationRunner,
        on_death: OnDeath = "abort",
    ) -> None:
        """``runner`` runs the operations of this rank of the group."""
        super().__init__(runner, on_death)
        self._repeated = RepeatedAllreduces(runner)
        self._messages = Messages(runner)
        self._objects = Objects(runner)
        self._one_sided = AtFirstUse(self._make_one_sided)
        self._keyed = AtFirstUse(self._make_keyed)
        self._partial = AtFirstUse(self._make_partial)
        # Registered from the start: others' requests may precede this rank's first such call.
        self._array_transfers = Transfers(runner, "arrays")
        self._round_transfers = Transfers(runner, "rounds")
        self._register()

    def _make_one_sided(self) -> OneSided:
        from innet.collectives.one_sided import OneSided

        return OneSided(self._runner, self._array_transfers)

    def _make_keyed(self) -> KeyedReductions:
        from innet.collectives.keyed import KeyedReductions

        return KeyedReductions(self._runner)

    def _make_partial(self) -> PartialReductions:
        from innet.collectives.partial import PartialReductions

        return PartialReductions(self._runner, self._round_transfers)

    # Collectives.

    @repeating
    @blocking
    def allreduce(self, array: Array, op: str = "sum", out: Array | None = None) -> Work[Array]:
        """Reduce over all ranks; all get the result.

        Operations: ``sum``, ``prod``, ``min`` and ``max``; for integers and bool also ``band``,
        ``bor`` and ``bxor``. Complex numbers have ``sum`` and ``prod`` only. A ``sum`` of bool is
        "or", a ``prod`` is "and".

        Types: float32, float64, float16, complex64, complex128, bool, signed and unsigned integers
        of 8 to 64 bits, and ml_dtypes' bfloat16, float8_e4m3fn and float8_e5m2. Types narrower
        than float32 are added in float32 and rounded once in each node; a float8_e4m3fn result
        beyond 448 becomes NaN, for it has no infinity. Products of integers wrap around, as
        NumPy's do; a sum that leaves its type is an error, or wraps around too (:attr:`overflow`).
        """
        with self.collective("allreduce"):
            return self._runner.start(allreduce(self._variants, array, op, out))

    @blocking
    def allreduce_q8(
        self, array: Array, out: Array | None = None, lost: Array | None = None
    ) -> Work[Array]:
        """Sum float32 arrays over all ranks in 8 bits an element: 3.9 times less to send.

        Blocks of 32 elements share a scale (docs/compression.md). Each node adds in float32 and
        encodes its sum once, so all ranks get the same bits. A block in which some rank has NaN,
        an infinity or a number of 2**127 or more is NaN everywhere.

        Args:
            array: float32, of any shape; may be changed once the operation has started.
            out: where the result goes; may be ``array``.
            lost: float32, of the same size: receives, at the start, what encoding took from
                ``array``, to be added to the next contribution (error feedback). 0 in a block that
                is NaN.
        """
        with self.collective("allreduce_q8"):
            return self._runner.start(allreduce_q8(self._variants, array, out, lost))

    @blocking
    def reduce(
        self, array: Array, root: int = 0, op: str = "sum", out: Array | None = None
    ) -> Work[Array | None]:
        """Reduce over all ranks; ``root`` gets the result, the others ``None``."""
        with self.collective("reduce", synchronising=False):
            self._runner.require_rank(root)
            return self._runner.start(reduce(self._variants, array, root, op, out))

    @blocking
    def reduce_scatter(
        self, array: Array, op: str = "sum", out: Array | None = None
    ) -> Work[Array]:
        """Reduce over all ranks; rank r gets block r of ``size`` along the first axis."""
        with self.collective("reduce_scatter"):
            return self._runner.start(reduce_scatter(self._variants, array, op, out))

    @blocking
    def allgather(self, array: Array, out: Array | None = None) -> Work[Array]:
        """The arrays of all ranks, stacked: shape ``(size, *array.shape)``."""
        with self.collective("allgather"):
            return self._runner.start(allgather(self._variants, array, out))

    @blocking
    def broadcast(self, array: Array, root: int = 0) -> Work[Array]:
        """Fill every rank's ``array`` with the root's; returns it."""
        with self.collective("broadcast", synchronising=False):
            self._runner.require_rank(root)
            return self._runner.start(broadcast(self._variants, array, root))

    @blocking
    def gather(self, array: Array, root: int = 0, out: Array | None = None) -> Work[Array | None]:
        """The arrays of all ranks, stacked, at ``root``; ``None`` elsewhere."""
        with self.collective("gather", synchronising=False):
            self._runner.require_rank(root)
            return self._runner.start(gather(self._variants, array, root, out))

    @blocking
    def scatter(self, array: Array | None, root: int = 0, out: Array | None = None) -> Work[Array]:
        """Rank r gets block r of the root's ``array``; other ranks pass ``None`` and ``out``."""
        with self.collective("scatter", synchronising=False):
            self._runner.require_rank(root)
            return self._runner.start(scatter(self._variants, array, root, out))

    @blocking
    def alltoall(self, array: Array, out: Array | None = None) -> Work[Array]:
        """Block r of ``array`` goes to rank r; block r of the result came from rank r."""
        with self.collective("alltoall"):
            return self._runner.start(alltoall(self._variants, array, out))

    @blocking
    def barrier(self, *, timeout_s: float | None = None) -> Work[None]:
        """Wait until every rank has called it."""
        with self.collective("barrier"):
            return self._runner.start(barrier(self._variants), timeout_s)

    iallreduce = non_blocking(allreduce)
    iallreduce_q8 = non_blocking(allreduce_q8)
    ireduce = non_blocking(reduce)
    ireduce_scatter = non_blocking(reduce_scatter)
    iallgather = non_blocking(allgather)
    ibroadcast = non_blocking(broadcast)
    igather = non_blocking(gather)
    iscatter = non_blocking(scatter)
    ialltoall = non_blocking(alltoall)
    ibarrier = non_blocking(barrier)

    def collective(
        self,
        what: str,
        *,
        numbers: int = 1,
        synchronising: bool = True,
        rounds: int = 0,
    ) -> AbstractContextManager[None]:
        """A block that makes one collective call, or fails it on every rank.

        For collectives that are made of others. A block that prepares a contribution may fail
        before its call; this rank would then be one call behind the others. With this, every other
        rank ends the call at once with a :class:`~innet.errors.PeerError` that names this rank and
        the cause (or with the same :class:`~innet.errors.MismatchError` or
        :class:`~innet.errors.ReductionOverflow`), and the next call is right on all ranks.

        Args:
            what: names the call for people, such as ``MaskedSum.allreduce``.
            numbers: how many collective calls the block makes (``reduce_by_key`` and
                ``allreduce_sparse`` count as 3, ``allreduce_blocks`` and ``allreduce_of`` as 2).
                Those that it has not made when it ends or raises fail on the other ranks.
            synchronising: false when these are all among ``broadcast``, ``reduce``, ``gather``,
                ``scatter`` and ``allreduce_of``, which do not wait for every rank; there may be one
                call then. True when the block ends with a call that does.
            rounds: how many of the calls are ``allreduce_of``, which also has rounds to count.

        Example::

            with comm.collective("mean of logarithms"):
                prepared = np.log(array)  # may raise
                total = comm.allreduce(prepared)
            return total / comm.size
        """
        fail_rounds = self._partial().failing_rounds(rounds) if rounds > 0 else None
        return self._runner.calls.call(what, numbers, synchronising, fail_rounds)

    def fail(self, what: str, error: BaseException, *, synchronising: bool = True) -> None:
        """Fail a collective call that cannot be made, on every rank that needs it.

        ``error`` stands in the errors of the others; ``what`` and ``synchronising`` are as for
        :meth:`collective`.
        """
        try:
            with self.collective(what, synchronising=synchronising):
                raise error
        except BaseException as raised:
            if raised is not error:
                raise

    def leave_step(self, what: str) -> None:
        """Say that this rank may have missed calls that others made, because ``what`` failed here.

        Unless all ranks say the same, the next call that all wait for fails once on all of them,
        with a :class:`~innet.errors.MismatchError`: it may be another call on each.
        """
        self._runner.calls.earlier.leave_step(what)

    # Reductions by key, and of sparse tensors.

    @blocking
    def reduce_by_key(
        self, keys: Array, values: Array, op: str = "sum", root: int | None = None
    ) -> Work[KeysAndValues | None]:
        """Reduce key-value pairs over all ranks: the union of the keys, each with one value.

        Values of equal keys are reduced with ``sum``, ``min``, ``max`` or ``prod``, on the switches
        where the plan says so; within one rank first, in the order given.

        Args:
            keys: uint64, uint32, int64 or int32, of shape ``(n,)``, not negative; the same type
                on every rank. Ranks may have any keys, and any number of them, also none.
            values: float32, float64 or int64, of shape ``(n,)``; the same type on every rank.
            op: how values of equal keys are reduced.
            root: the rank that gets the result; by default all do.

        Returns:
            The keys, ascending, and their values, the same bits on every rank; ``None`` on ranks
            other than ``root``.

        Example::

            words, counts = comm.reduce_by_key(hashes, np.ones(len(hashes), np.int64))
        """
        return self._keyed().reduce_by_key(keys, values, op, root)

    @blocking
    def allreduce_sparse(self, indices: Array, values: Array, size: int) -> Work[Array]:
        """Sum vectors of which each rank names a few elements, such as the top k of a gradient.

        The traffic is proportional to the elements named, not to ``size``; switches add the
        elements that several ranks name (with the algorithm ``inc``).

        Args:
            indices: whole numbers of shape ``(k,)`` in ``0 .. size - 1``, in any order; an index
                may repeat. ``k`` may differ between ranks.
            values: float32, float64 or int64, of shape ``(k,)``.
            size: elements of the whole vector; the same on every rank.

        Returns:
            The sum, of shape ``(size,)`` and the type of ``values``; zero where no rank
            named an element. The same bits on every rank.

        Example::

            top = np.argpartition(np.abs(gradient), -k)[-k:]
            total = comm.allreduce_sparse(top, gradient[top], gradient.size)
        """
        return self._keyed().allreduce_sparse(indices, values, size)

    @blocking
    def allreduce_blocks(self, array: Array, out: Array | None = None) -> Work[Array]:
        """Sum float32 arrays of which whole blocks are zero, such as an embedding's gradient.

        A block is 32 consecutive elements. The traffic is proportional to the blocks that are not
        zero, plus one bit for each block; switches add the blocks that several ranks have
        (with the algorithm ``inc``). A block with NaN or infinity is not zero.

        Args:
            array: float32, of any shape, the same on every rank; may be changed once the operation
                has started.
            out: where the result goes; may be ``array``.

        Returns:
            The sum, of the shape of ``array``; ``0.0`` in a block that no rank sent. The same bits
            on every rank.
        """
        return self._keyed().allreduce_blocks(array, out)

    ireduce_by_key = non_blocking(reduce_by_key)
    iallreduce_sparse = non_blocking(allreduce_sparse)
    iallreduce_blocks = non_blocking(allreduce_blocks)

    @blocking
    def allreduce_of(
        self,
        array: Array,
        policy: KOfN,
        op: str = "sum",
        *,
        out: Array | None = None,
        late: Array | None = None,
    ) -> Work[PartialSum]:
        """Reduce over the ranks that are ready in time; all get the result and its contributors.

        Every rank calls it as any other collective. A rank that comes too late for a round gets the
        round's result at once, without its contribution. It can call again with the same array
        until that is included; or add what was left out to its next contribution (``late``).

        Args:
            array: as for :meth:`allreduce`.
            policy: when to continue without the others; the same on every rank.
            op: as for :meth:`allreduce`.
            out: where the result goes.
            late: what earlier rounds have left out of this rank's contributions, at first zeros, of
                the shape and type of ``array``. It is added to ``array``, and becomes zeros when
                this rank is in the round, or else all that is left out now. Nothing is lost or
                counted twice: the sum of all totals and of every rank's ``late`` is that of all
                arrays, exactly for integers, and but for rounding for others. For ``sum`` only.
                A call that raises leaves it as it was.

        Raises:
            DeadlineExceeded: fewer than ``k`` ranks came in time; the message names the others.

        Example::

            late = np.zeros_like(gradient)
            part = comm.allreduce_of(gradient, innet.KOfN(k=7, deadline_s=0.05), late=late)
            weights -= rate * part.mean()
        """
        return self._partial().allreduce_of(array, policy, op, out=out, late=late)

    iallreduce_of = non_blocking(allreduce_of)

    # Messages between two ranks, with tags. None of these is a collective.

    @blocking
    def send(self, array: Array, to: int, tag: int = 0) -> Work[None]:
        """Send ``array`` to rank ``to``; ends when it is buffered and may be changed."""
        return self._messages.send(array, to, tag)

    @blocking
    def recv(
        self, array: Array, source: int, tag: int = 0, *, timeout_s: float | None = None
    ) -> Work[Array]:
        """Fill ``array`` with the next message of rank ``source`` with that tag; returns it."""
        return self._messages.receive(array, source, tag, timeout_s)

    @blocking
    def recv_any(self, array: Array, tag: int = 0) -> Work[int]:
        """Fill ``array`` with the next message that any rank sends with that tag; its sender.

        Messages of one sender are taken in the order they were sent. Use a separate tag for it:
        this rank requests the next message of every rank, also for receives that follow.
        """
        return self._messages.receive_any(array, tag)

    isend = non_blocking(send)
    irecv = non_blocking(recv)
    irecv_any = non_blocking(recv_any)

    def fail_send(self, to: int, tag: int, error: BaseException) -> None:
        """Fail a :meth:`send` that cannot be made: the receive of it raises ``error``."""
        self._messages.fail_send(to, tag, error)

    def skip_recv(self, source: int, tag: int) -> None:
        """Skip a :meth:`recv` that cannot be made: its message is dropped."""
        self._messages.skip_receive(source, tag)

    # Objects: bytes under a name of their own. None of these is a collective.

    @blocking
    def publish(self, name: str, data: ObjectData) -> Work[None]:
        """Offer ``data`` (a model, a KV block) to all ranks, under ``name``.

        It is copied and signed once (a manifest with one Ed25519 signature and the digests of its
        segments), in a time proportional to its size, and stays until :meth:`withdraw` or
        :meth:`close`. When the operation has ended, ranks can fetch it, and ``data`` may change.

        Args:
            name: a path such as ``model/step-100``. A name stands for one value: caches may keep
                what it stood for, so give another value another name.
            data: an array of any type without Python objects, or anything that shows its bytes.

        Raises:
            TransportError: the name is published already, or too long for the links' packets.

        Example::

            if comm.rank == 0:
                comm.publish("model", weights)
            else:
                weights = comm.fetch("model", source=0, out=weights)
        """
        return self._objects.publish(name, data)

    @blocking
    def fetch(
        self,
        name: str,
        source: int,
        out: Array | None = None,
        *,
        timeout_s: float | None = None,
    ) -> Work[Array]:
        """The object ``name`` of rank ``source``, verified; waits until it is published.

        It lands in ``out``, whose bytes must be as many, else in a new array of bytes
        (``result.view(dtype)`` gives it a type). Any number of ranks may fetch it at once: data
        that they have in common crosses each link about once.

        Raises:
            SecurityError: what is published is not signed by the key of rank ``source``.
            MismatchError: the object and ``out`` differ in size.
            TransportError: the source's node does not answer for it, or there is no memory for it.
        """
        return self._objects.fetch(name, source, out, timeout_s)

    ipublish = non_blocking(publish)
    ifetch = non_blocking(fetch)

    def withdraw(self, name: str) -> None:
        """Offer an object no longer; nothing happens when this rank did not offer it.

        Fetches under way may fail, and caches may still serve what they hold.
        """
        self._objects.withdraw(name)

    # Registered arrays, which any rank reads and writes at any time, in any order.

    def register(self, name: str, array: Array) -> RegisteredArray:
        """Let all ranks read and write ``array`` of this rank under ``name``.

        The memory stays the caller's; others write it from now on, so access it inside the blocks
        that the result offers. It is served until the group closes, and ``name``, a path such as
        ``expert/3``, stands for one array that long. The array is of any type without Python
        objects, writable and contiguous.

        Example::

            expert = comm.register(f"expert/{comm.rank}", weights)
            with expert.writing() as memory:
                memory *= 0.9
            others, version = comm.get("expert/3", source=3)
        """
        return self._one_sided().register(name, array)

    @blocking
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
    ) -> Work[Snapshot]:
        """The array ``name`` of rank ``source``, as ``(array, version)``.

        All of it is of one version, and at least as new as the versions that this rank's finished
        puts made. It waits until the array is registered. Ranks that get the same version fetch the
        same names: data that they have in common crosses each link about once.

        Args:
            name: as registered.
            source: the rank that registered it.
            out: where it goes, of the same shape and type; by default a new array.
            rows: only these, along the first axis, such as ``slice(128, 256)``.
            at_least: wait for this version.
            behind: accept a version that is so many older, if another rank got it before: it
                may be in caches, and the owner need not copy the newest.
            timeout_s: deadline.
        """
        return self._one_sided().get(
            name, source, out, rows=rows, at_least=at_least, behind=behind, timeout_s=timeout_s
        )

    @blocking
    def put(
        self,
        name: str,
        to: int,
        array: Array,
        *,
        rows: slice | None = None,
        combine: Combine = "replace",
        timeout_s: float | None = None,
    ) -> Work[int]:
        """Write ``array`` into the array ``name`` of rank ``to``; the version that this made.

        It takes effect at once and as a whole, before the operation ends: no get sees a part of it,
        and no sum is lost. Puts of one rank that are under way together may take effect in any
        order. A put that misses its deadline may still take effect.

        Args:
            name: as registered.
            to: the rank that registered it.
            array: of the registered array's type, and of its shape or that of ``rows``; may be
                changed once the operation has started.
            rows: write only these, along the first axis.
            combine: ``replace`` what is there, or add to it (``sum``).
            timeout_s: deadline.
        """
        return self._one_sided().put(
            name, to, array, rows=rows, combine=combine, timeout_s=timeout_s
        )

    iget = non_blocking(get)
    iput = non_blocking(put)

    def _refuse(self, cause: str) -> None:
        super()._refuse(cause)
        self._messages.refuse(cause)
        self._objects.refuse(cause)
        one_sided, partial = self._one_sided.made, self._partial.made
        if one_sided is None or not one_sided.leave(cause):
            self._array_transfers.refuse(cause)
        if partial is None or not partial.leave():
            self._round_transfers.refuse(cause)

    def _release(self) -> None:
        self._runner.close()
        self._objects.close()
        for delegate in (self._one_sided.made, self._partial.made):
            if delegate is not None:
                delegate.close()
        self._array_transfers.close()
        self._round_transfers.close()
        self._messages.close()
