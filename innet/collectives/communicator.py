"""The communicator: what a worker's program holds."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from innet.collectives.arrays import Array
from innet.collectives.copies import allgather, alltoall, broadcast, gather, scatter
from innet.collectives.group import Variants
from innet.collectives.messages import Messages
from innet.collectives.objects import ObjectData, Objects
from innet.collectives.recovery import Recovery
from innet.collectives.reductions import (
    allreduce,
    allreduce_q8,
    barrier,
    reduce,
    reduce_scatter,
)
from innet.collectives.runner import OperationRunner, Services
from innet.collectives.transfers import Transfers
from innet.collectives.work import Work
from innet.errors import RankFailed
from innet.joint_close import JointlyClosed
from innet.plans import Plan
from innet.worker.job_file import OnDeath
from innet.worker.membership import Membership

if TYPE_CHECKING:  # imported when first called: most programs need none of them
    from innet.collectives.keyed import KeyedReductions
    from innet.collectives.keyed.pairs import KeysAndValues
    from innet.collectives.one_sided import Combine, OneSided, RegisteredArray, Snapshot
    from innet.collectives.partial import KOfN, PartialReductions, PartialSum

T = TypeVar("T")


class _AtFirstUse(Generic[T]):
    """A delegate that is made when it is first used. Thread-safe.

    Attributes:
        made: the delegate, once it is.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self.made: T | None = None

    def __call__(self) -> T:
        if self.made is None:
            with self._lock:
                if self.made is None:
                    self.made = self._make()
        return self.made


class Communicator(JointlyClosed):
    """Collectives among the ranks of one group.

    All ranks call the same collectives in the same order. Each exists blocking (``allreduce``) and
    as a future (``iallreduce``) that can be waited for or awaited. Arrays are NumPy's; a result
    goes into ``out`` when that is given (which may be the input: in place), else into a new array.

    Attributes:
        rank: this process's place in the group.
        size: number of ranks in the group.
        nodes: the host of each rank.
        attributes: what libraries keep with this communicator, each under a key of its own (as
            MPI's attribute caching).
        on_death: what :meth:`recover` does: ``abort``, ``shrink`` or ``wait``.
    """

    def __init__(
        self,
        services: Services,
        membership: Membership,
        variants: Variants,
        timeout_s: float,
        on_death: OnDeath = "abort",
    ) -> None:
        self._services = services
        self._membership = membership
        self._variants = variants
        self.rank = membership.rank
        self.size = membership.size
        self.nodes = membership.nodes
        self.attributes: dict[str, Any] = {}
        self.on_death = on_death
        self._runner = OperationRunner(services, membership, variants, timeout_s)
        self._messages = Messages(self._runner)
        self._objects = Objects(self._runner)
        self._recovery = Recovery(self._runner, self.close)
        self._one_sided = _AtFirstUse(self._make_one_sided)
        self._keyed = _AtFirstUse(self._make_keyed)
        self._partial = _AtFirstUse(self._make_partial)
        # Registered from the start: other ranks may ask before this one makes such a call.
        self._array_transfers = Transfers(self._runner, "arrays")
        self._round_transfers = Transfers(self._runner, "rounds")
        membership.release = self._release
        services.before_close(self.close)

    def _make_one_sided(self) -> OneSided:
        from innet.collectives.one_sided import OneSided

        return OneSided(self._runner, self._array_transfers)

    def _make_keyed(self) -> KeyedReductions:
        from innet.collectives.keyed import KeyedReductions

        return KeyedReductions(self._runner)

    def _make_partial(self) -> PartialReductions:
        from innet.collectives.partial import PartialReductions

        return PartialReductions(self._runner, self._round_transfers)

    # Collectives, each asynchronous and blocking.

    def iallreduce(self, array: Array, op: str = "sum", out: Array | None = None) -> Work[Array]:
        """Start an :meth:`allreduce`."""
        with self.collective("allreduce"):
            return self._runner.start(allreduce(self._variants, array, op, out))

    def allreduce(self, array: Array, op: str = "sum", out: Array | None = None) -> Array:
        """Reduce over all ranks; all get the result.

        Operations: ``sum``, ``prod``, ``min`` and ``max``; for integers and bool also ``band``,
        ``bor`` and ``bxor``. Complex numbers have ``sum`` and ``prod`` only. A ``sum`` of bool is
        "or", a ``prod`` is "and".

        Types: float32, float64, float16, complex64, complex128, bool, signed and unsigned integers
        of 8 to 64 bits, and ml_dtypes' bfloat16, float8_e4m3fn and float8_e5m2. Those narrower than
        float32 are added in float32 and rounded once in each node; a float8_e4m3fn result beyond
        448 becomes NaN, for it has no infinity.

        Raises:
            MismatchError: ranks called different operations, shapes or types.
            ReductionOverflow: an integer result does not fit its type.
            RankFailed, DeadlineExceeded: a rank is gone, or did not come in time.
        """
        return self.iallreduce(array, op, out).wait_or_cancel()

    def iallreduce_q8(
        self, array: Array, out: Array | None = None, lost: Array | None = None
    ) -> Work[Array]:
        """Start an :meth:`allreduce_q8`; ``array`` may be changed at once, ``lost`` is ready."""
        with self.collective("allreduce_q8"):
            return self._runner.start(allreduce_q8(self._variants, array, out, lost))

    def allreduce_q8(
        self, array: Array, out: Array | None = None, lost: Array | None = None
    ) -> Array:
        """Sum float32 arrays over all ranks in 8 bits an element: 3.9 times less to send.

        Blocks of 32 elements share a scale (docs/compression.md). Each node adds in float32 and
        encodes its sum once, so all ranks get the same bits. A block in which some rank has NaN,
        an infinity or a number of 2**127 or more is NaN everywhere.

        Args:
            array: float32, of any shape.
            out: where the result goes; may be ``array``.
            lost: float32, of the same size: becomes what encoding took from ``array``, to be added
                to the next contribution (error feedback). 0 in a block that is NaN.
        """
        return self.iallreduce_q8(array, out, lost).wait_or_cancel()

    def ireduce(
        self, array: Array, root: int = 0, op: str = "sum", out: Array | None = None
    ) -> Work[Array | None]:
        """Start a :meth:`reduce`."""
        with self.collective("reduce", synchronising=False):
            self._runner.require_rank(root)
            return self._runner.start(reduce(self._variants, self.rank, array, root, op, out))

    def reduce(
        self, array: Array, root: int = 0, op: str = "sum", out: Array | None = None
    ) -> Array | None:
        """Reduce over all ranks; ``root`` gets the result, the others ``None``."""
        return self.ireduce(array, root, op, out).wait_or_cancel()

    def ireduce_scatter(
        self, array: Array, op: str = "sum", out: Array | None = None
    ) -> Work[Array]:
        """Start a :meth:`reduce_scatter`."""
        with self.collective("reduce_scatter"):
            return self._runner.start(
                reduce_scatter(self._variants, self.rank, self.size, array, op, out)
            )

    def reduce_scatter(self, array: Array, op: str = "sum", out: Array | None = None) -> Array:
        """Reduce over all ranks; rank r gets block r of ``size`` along the first axis."""
        return self.ireduce_scatter(array, op, out).wait_or_cancel()

    def iallgather(self, array: Array, out: Array | None = None) -> Work[Array]:
        """Start an :meth:`allgather`."""
        with self.collective("allgather"):
            return self._runner.start(allgather(self._variants, self.rank, self.size, array, out))

    def allgather(self, array: Array, out: Array | None = None) -> Array:
        """Everybody's arrays, stacked: shape ``(size, *array.shape)``."""
        return self.iallgather(array, out).wait_or_cancel()

    def ibroadcast(self, array: Array, root: int = 0) -> Work[Array]:
        """Start a :meth:`broadcast`."""
        with self.collective("broadcast", synchronising=False):
            self._runner.require_rank(root)
            return self._runner.start(broadcast(self._variants, self.rank, array, root))

    def broadcast(self, array: Array, root: int = 0) -> Array:
        """Fill everybody's ``array`` with the root's; returns it."""
        return self.ibroadcast(array, root).wait_or_cancel()

    def igather(self, array: Array, root: int = 0, out: Array | None = None) -> Work[Array | None]:
        """Start a :meth:`gather`."""
        with self.collective("gather", synchronising=False):
            self._runner.require_rank(root)
            return self._runner.start(
                gather(self._variants, self.rank, self.size, array, root, out)
            )

    def gather(self, array: Array, root: int = 0, out: Array | None = None) -> Array | None:
        """Everybody's arrays, stacked, at ``root``; ``None`` elsewhere."""
        return self.igather(array, root, out).wait_or_cancel()

    def iscatter(self, array: Array | None, root: int = 0, out: Array | None = None) -> Work[Array]:
        """Start a :meth:`scatter`."""
        with self.collective("scatter", synchronising=False):
            self._runner.require_rank(root)
            return self._runner.start(
                scatter(self._variants, self.rank, self.size, array, root, out)
            )

    def scatter(self, array: Array | None, root: int = 0, out: Array | None = None) -> Array:
        """Rank r gets block r of the root's ``array``; other ranks pass ``None`` and ``out``."""
        return self.iscatter(array, root, out).wait_or_cancel()

    def ialltoall(self, array: Array, out: Array | None = None) -> Work[Array]:
        """Start an :meth:`alltoall`."""
        with self.collective("alltoall"):
            return self._runner.start(alltoall(self._variants, self.rank, self.size, array, out))

    def alltoall(self, array: Array, out: Array | None = None) -> Array:
        """Block r of ``array`` goes to rank r; block r of the result came from rank r."""
        return self.ialltoall(array, out).wait_or_cancel()

    def ibarrier(self, *, timeout_s: float | None = None) -> Work[None]:
        """Start a :meth:`barrier`; its deadline is by default that of the group's operations."""
        with self.collective("barrier"):
            return self._runner.start(barrier(self._variants), timeout_s)

    def barrier(self) -> None:
        """Wait until every rank has come here."""
        self.ibarrier().wait_or_cancel()

    def collective(
        self,
        what: str,
        *,
        numbers: int = 1,
        synchronising: bool = True,
        rounds: int = 0,
    ) -> AbstractContextManager[None]:
        """A block that makes one collective call, or fails it on every rank.

        For collectives that are made of others. All ranks call the same collectives in the same
        order; a block that prepares a contribution, and then makes a call with it, may fail before
        that call, and would be one behind from then on. With this, every other rank ends the call
        at once with a :class:`~innet.errors.PeerError` that names this rank and the cause (or with
        the same :class:`~innet.errors.MismatchError` or :class:`~innet.errors.ReductionOverflow`),
        and the next call is right on all ranks.

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

        Args:
            what: names the call for people.
            error: why; stands in the errors of the others.
            synchronising: of the call that the others make, as :meth:`collective` says.
        """
        try:
            with self.collective(what, synchronising=synchronising):
                raise error
        except BaseException as raised:
            if raised is not error:
                raise

    # Reductions by key, and of sparse tensors.

    def ireduce_by_key(
        self, keys: Array, values: Array, op: str = "sum", root: int | None = None
    ) -> Work[KeysAndValues | None]:
        """Start a :meth:`reduce_by_key`; its steps go on whether or not anybody waits."""
        return self._keyed().reduce_by_key(keys, values, op, root)

    def reduce_by_key(
        self, keys: Array, values: Array, op: str = "sum", root: int | None = None
    ) -> KeysAndValues | None:
        """Reduce key-value pairs over all ranks: the union of the keys, each with one value.

        Values of equal keys are reduced with ``sum``, ``min``, ``max`` or ``prod``, on the switches
        where the plan says so; within one rank first, in the order given. Ranks may have any
        number of pairs, none too, and any keys.

        Args:
            keys: uint64, uint32, int64 or int32, of shape ``(n,)``, not negative; the same type
                on every rank.
            values: float32, float64 or int64, of shape ``(n,)``; the same type on every rank.
            op: how values of equal keys are reduced.
            root: the rank that gets the result; by default all do.

        Returns:
            The keys, ascending, and their values, the same bits on every rank; ``None`` on ranks
            other than ``root``.

        Raises:
            CollectiveError: no pairs of these types; or too many ranks for the links' packets.
            MismatchError: ranks called different operations or types.
            ReductionOverflow: an integer does not fit its type.
            RankFailed, DeadlineExceeded: a rank is gone, or did not come in time.

        Example::

            words, counts = comm.reduce_by_key(hashes, np.ones(len(hashes), np.int64))
        """
        return self.ireduce_by_key(keys, values, op, root).wait_or_cancel()

    def iallreduce_sparse(self, indices: Array, values: Array, size: int) -> Work[Array]:
        """Start an :meth:`allreduce_sparse`."""
        return self._keyed().allreduce_sparse(indices, values, size)

    def allreduce_sparse(self, indices: Array, values: Array, size: int) -> Array:
        """Sum vectors of which each rank names a few elements, such as the top k of a gradient.

        What travels is proportional to the elements named, not to ``size``; elements that several
        ranks name are added on the switches (with the algorithm ``inc``).

        Args:
            indices: whole numbers of shape ``(k,)`` in ``0 .. size - 1``, in any order; what is
                named twice is added. ``k`` may differ between ranks.
            values: float32, float64 or int64, of shape ``(k,)``.
            size: elements of the whole vector; the same on every rank.

        Returns:
            The sum, of shape ``(size,)`` and the type of ``values``; zero where no rank
            named an element. The same bits on every rank.

        Raises:
            As :meth:`reduce_by_key`.

        Example::

            top = np.argpartition(np.abs(gradient), -k)[-k:]
            total = comm.allreduce_sparse(top, gradient[top], gradient.size)
        """
        return self.iallreduce_sparse(indices, values, size).wait_or_cancel()

    def iallreduce_blocks(self, array: Array, out: Array | None = None) -> Work[Array]:
        """Start an :meth:`allreduce_blocks`; ``array`` may be changed at once."""
        return self._keyed().allreduce_blocks(array, out)

    def allreduce_blocks(self, array: Array, out: Array | None = None) -> Array:
        """Sum float32 arrays of which whole blocks are zero, such as an embedding's gradient.

        A block is 32 elements that follow each other, the first from 0 on. What travels is
        proportional to the blocks that are not zero, and one bit for each that is; blocks that
        several ranks have are added on the switches (with the algorithm ``inc``). Which blocks
        these are need not be known to the others. A block with NaN or infinity is not zero.

        Args:
            array: float32, of any shape, the same on every rank; dense.
            out: where the result goes; may be ``array``.

        Returns:
            The sum, of the shape of ``array``; ``0.0`` in a block that no rank sent. The same bits
            on every rank.

        Raises:
            CollectiveError: not float32, or links whose packets have no room for a block.
            MismatchError: ranks called different operations or shapes.
            RankFailed, DeadlineExceeded: a rank is gone, or did not come in time.

        Example::

            comm.allreduce_blocks(embedding.grad, out=embedding.grad)
        """
        return self.iallreduce_blocks(array, out).wait_or_cancel()

    # Reductions over the ranks that are ready in time.

    def iallreduce_of(
        self,
        array: Array,
        policy: KOfN,
        op: str = "sum",
        *,
        out: Array | None = None,
        late: Array | None = None,
    ) -> Work[PartialSum]:
        """Start an :meth:`allreduce_of`; ``array`` and ``late`` stay as they are until its end."""
        return self._partial().allreduce_of(array, policy, op, out=out, late=late)

    def allreduce_of(
        self,
        array: Array,
        policy: KOfN,
        op: str = "sum",
        *,
        out: Array | None = None,
        late: Array | None = None,
    ) -> PartialSum:
        """Reduce over the ranks that are ready in time; all get the result and its contributors.

        Every rank calls it as any other collective. A rank that comes too late for a round gets the
        round's result at once, and its contribution is not in it. It can call again right away with
        the same array, until that is included; or go on, and give what was left out with its next.

        Args:
            array: as for :meth:`allreduce`; not changed by anybody until the end.
            policy: when to go on without the others; the same on every rank.
            op: as for :meth:`allreduce`.
            out: where the result goes.
            late: what earlier rounds have left out of this rank's contributions, at first zeros, of
                the shape and type of ``array``. It is added to ``array``, and becomes zeros when
                this rank is in the round, or else all that is left out now. Nothing is lost or
                counted twice: the sum of all totals and of every rank's ``late`` is that of all
                arrays, exactly for integers, and but for rounding for others. For ``sum`` only.
                A call that raises leaves it as it was.

        Raises:
            CollectiveError: the policy needs more ranks than there are, or ``late`` does not fit.
            DeadlineExceeded: fewer than ``k`` ranks came in time; the message names the others.
            MismatchError: ranks called with different policies, shapes or types.
            RankFailed, ReductionOverflow: as :meth:`allreduce`.

        Example::

            late = np.zeros_like(gradient)
            part = comm.allreduce_of(gradient, innet.KOfN(k=7, deadline_s=0.05), late=late)
            weights -= rate * part.mean()
        """
        return self.iallreduce_of(array, policy, op, out=out, late=late).wait_or_cancel()

    # Messages between two ranks, with tags. None of these is a collective.

    def isend(self, array: Array, to: int, tag: int = 0) -> Work[None]:
        """Start a :meth:`send`."""
        return self._messages.send(array, to, tag)

    def send(self, array: Array, to: int, tag: int = 0) -> None:
        """Send ``array`` to rank ``to``; returns when it is buffered and may be changed."""
        self.isend(array, to, tag).wait_or_cancel()

    def fail_send(self, to: int, tag: int, error: BaseException) -> None:
        """Fail a :meth:`send` that cannot be made: the receive of it raises ``error``."""
        self._messages.fail_send(to, tag, error)

    def skip_recv(self, source: int, tag: int) -> None:
        """Skip a :meth:`recv` that cannot be made: its message is dropped."""
        self._messages.skip_receive(source, tag)

    def irecv(
        self, array: Array, source: int, tag: int = 0, *, timeout_s: float | None = None
    ) -> Work[Array]:
        """Start a :meth:`recv`; its deadline is by default that of the group's operations."""
        return self._messages.receive(array, source, tag, timeout_s)

    def recv(self, array: Array, source: int, tag: int = 0) -> Array:
        """Fill ``array`` with the next message of rank ``source`` with that tag; returns it."""
        return self.irecv(array, source, tag).wait_or_cancel()

    def irecv_any(self, array: Array, tag: int = 0) -> Work[int]:
        """Start a :meth:`recv_any`."""
        return self._messages.receive_any(array, tag)

    def recv_any(self, array: Array, tag: int = 0) -> int:
        """Fill ``array`` with the next message that any rank sends with that tag; its sender.

        Messages of one sender are taken in the order they were sent. Every rank is asked for its
        next message, and fetches go on for receives that follow: use a tag of its own for it.
        """
        return self.irecv_any(array, tag).wait_or_cancel()

    # Objects: bytes under a name of their own. None of these is a collective.

    def ipublish(self, name: str, data: ObjectData) -> Work[None]:
        """Start a :meth:`publish`; ``data`` must stay as it is until the end."""
        return self._objects.publish(name, data)

    def publish(self, name: str, data: ObjectData) -> None:
        """Offer ``data`` (a model, a KV block) to all ranks, under ``name``.

        It is copied and signed once (a manifest with one Ed25519 signature and the digests of its
        segments), in a time proportional to its size, and stays until :meth:`withdraw` or
        :meth:`close`. It can be fetched when this returns; ``data`` may then be changed.

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
        self.ipublish(name, data).wait_or_cancel()

    def withdraw(self, name: str) -> None:
        """Offer an object no longer; nothing happens when this rank did not offer it.

        Fetches under way may fail, and caches may still serve what they hold.
        """
        self._objects.withdraw(name)

    def ifetch(
        self,
        name: str,
        source: int,
        out: Array | None = None,
        *,
        timeout_s: float | None = None,
    ) -> Work[Array]:
        """Start a :meth:`fetch`."""
        return self._objects.fetch(name, source, out, timeout_s)

    def fetch(
        self,
        name: str,
        source: int,
        out: Array | None = None,
        *,
        timeout_s: float | None = None,
    ) -> Array:
        """The object ``name`` of rank ``source``, verified; waits until it is published.

        It lands in ``out``, whose bytes must be as many, else in a new array of bytes
        (``result.view(dtype)`` gives it a type). Any number of ranks may fetch it at once: what
        they ask for in common crosses each link about once. This is no collective.

        Args:
            timeout_s: deadline; by default that of the communicator's operations.

        Raises:
            DeadlineExceeded: the object was not published, or did not come in time.
            SecurityError: what is published is not signed by the key of rank ``source``.
            MismatchError: the object and ``out`` differ in size.
            TransportError: the source's node does not answer for it, or there is no memory for it.
            RankFailed: a rank is gone.
        """
        return self.ifetch(name, source, out, timeout_s=timeout_s).wait_or_cancel()

    # Registered arrays, which any rank reads and writes at any time, in any order.

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
        return self._one_sided().register(name, array)

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
        return self._one_sided().get(
            name, source, out, rows=rows, at_least=at_least, behind=behind, timeout_s=timeout_s
        )

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
            behind: accept a version that is so many older, if another rank got it before: it
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
        return self._one_sided().put(
            name, to, array, rows=rows, combine=combine, timeout_s=timeout_s
        )

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

    # Going on after the death of a rank (docs/faults.md).

    def succeed_with(self, communicator_of: Callable[[Membership], Communicator]) -> None:
        """Let :meth:`shrink` and :meth:`restart` make communicators with ``communicator_of``."""
        self._recovery.succeed_with(communicator_of)

    def failure(self) -> RankFailed | None:
        """What ended the group, as the controller knows it; ``None`` if it has not failed."""
        return self._recovery.failure()

    def recover(self) -> Communicator:
        """Go on after a :class:`~innet.errors.RankFailed` as the group's policy says.

        ``abort`` raises an error that says why, ``shrink`` is :meth:`shrink`, ``wait`` is
        :meth:`restart`. Every surviving rank calls it.

        Example::

            comm = innet.init()
            step = load_checkpoint()
            while step < steps:
                try:
                    train(comm, step)
                    step += 1
                except RankFailed:
                    comm = comm.recover()
                    step = load_checkpoint()
        """
        return self._recovery.recover(self.on_death)

    def shrink(self) -> Communicator:
        """The communicator of the survivors; this one is closed.

        Every surviving rank calls it, whatever error it got, and all get the same ranks: the
        survivors in their old order, with new numbers. A rank that fails meanwhile is left out as
        well, and so are those that have left the group. The mean of a sum is over the new
        ``size``. (It is ULFM's ``MPI_Comm_shrink``: Bland et al. 2013, "Post-failure recovery of
        MPI communication capability".)

        Raises:
            ControlError: no rank of the group has failed or left, or the group's algorithm makes
                sums on a host whose process is gone.
            PlanError: the group's algorithm does not fit the survivors.
            DeadlineExceeded: some survivors did not come; the message names them.
        """
        return self._recovery.shrink()

    def restart(self) -> Communicator:
        """The communicator of the same hosts and ranks, with a successor of each that failed.

        This one is closed. Every surviving rank calls it; the successor, a new process on the host
        of the one that died, calls :func:`innet.init` with the arguments of the first time. It has
        nothing of its predecessor's memory, so all ranks go on from a checkpoint, or are sent the
        state by one that survived.

        Raises:
            ControlError: no successor will come.
            DeadlineExceeded: none came in time.
        """
        return self._recovery.restart()

    def expel(self, rank: int, why: str) -> None:
        """Give up a rank whose program hangs: its process is killed, and counts as failed.

        All groups it is in fail, and ``why`` stands in their errors. One rank's call is enough.
        """
        self._recovery.expel(rank, why)

    # About the group.

    def explain(self, size_bytes: int) -> str:
        """Why an allreduce of ``size_bytes`` per rank uses its plan, in sentences."""
        return self._variants.explain(size_bytes)

    def plan_for(self, size_bytes: int) -> Plan:
        """The plan of a reduction of ``size_bytes`` per rank: who adds what, and where.

        Its expression, evaluated with :func:`innet.plans.evaluate_allreduce` in steps of
        :attr:`segment_bytes`, gives the result to the bit.
        """
        return self._variants.for_size(size_bytes).plan

    @property
    def segment_bytes(self) -> int:
        """Bytes of a tensor that one packet carries."""
        return self._runner.segment_bytes

    def stats(self) -> dict[str, Any]:
        """Counters of this rank's node; see ``innet status``."""
        status: dict[str, Any] = self._runner.node.status()
        return status

    @property
    def timeout_s(self) -> float:
        """Deadline of operations, from their call; may be changed for those that follow.

        Collectives have more time by default where the slowest link needs it for their bytes.
        Setting this attribute sets the deadline of all operations.

        It must be above 0: an operation cannot be given no time (CollectiveError).
        """
        return self._runner.timeout_s

    @timeout_s.setter
    def timeout_s(self, timeout_s: float) -> None:
        self._runner.timeout_s = timeout_s

    def allow_time_for_bytes(self, slowest_link_bps: float) -> None:
        """Give collectives a multiple of their planned time, where :attr:`timeout_s` is less.

        No algorithm sends the tensor more than once per rank, and back, over one link.
        """
        self._runner.allow_time_for_bytes(slowest_link_bps)

    def abort(self, why: str) -> None:
        """End what is under way here with an error that says ``why``, and leave at once.

        Unlike :meth:`close`, it does not wait: others may miss what they have not fetched yet.
        """
        if not self._runner.is_closed:
            self._runner.is_closed = True
            self._services.no_more_before_close(self.close)
            self._publish_no_more(why)
            self._services.abandon_group(self._membership, why)

    def close(self) -> None:
        """Leave the group. What others may still need from this rank stays until all have left.

        Others that wait for a collective which this rank has not called get a
        :class:`~innet.errors.RankFailed` at once.
        """
        if self._runner.is_closed:
            return
        self._runner.is_closed = True
        self._services.no_more_before_close(self.close)
        self._publish_no_more()
        self._services.leave_group(self._membership)

    def _publish_no_more(self, why: str = "") -> None:
        """Fail the calls of others that this rank will never make, because of ``why``."""
        failure = self._membership.failure
        if failure is not None:
            told = failure.why  # the cause, not this rank that passes it on
        else:
            told = f"{self._runner.name} left the group without calling this operation"
            told += f": {why}" if why else ""
        for variant in self._variants.all:
            self._runner.node.end_producer(variant.own, self._runner.calls.next, told)

    def _release(self) -> None:
        self._runner.close()
        self._objects.close()
        for delegate in (self._one_sided.made, self._partial.made):
            if delegate is not None:
                delegate.close()
        self._array_transfers.close()
        self._round_transfers.close()
        self._messages.close()
