"""The one-sided calls of one communicator."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from innet.collectives.arrays import Array, copied_type, require_array
from innet.collectives.objects import quoted_path
from innet.collectives.one_sided.array_server import ArrayServer
from innet.collectives.one_sided.records import Combine, Rows
from innet.collectives.one_sided.registered_array import RegisteredArray
from innet.collectives.one_sided.remote_arrays import RemoteArrays, Snapshot
from innet.collectives.one_sided.transfers import Transfers
from innet.collectives.operation_log import OperationLog
from innet.collectives.work import Work
from innet.errors import CollectiveError
from innet.node.control.protocol import Failure
from innet.worker.background import Background


class OneSided:
    """``register``, ``get`` and ``put``: arguments as in :class:`Communicator`, checked here."""

    def __init__(
        self,
        transfers: Transfers,
        size: int,
        rank: int,
        failure: Callable[[], Failure | None],
        log: OperationLog,
        background: Background,
        now_s: Callable[[], float],
    ) -> None:
        """``size`` and ``rank`` are of the group; ``failure`` says what happened to it, if so.

        Arrays are served in ``background``, whose clock is ``now_s``.
        """
        self._transfers = transfers
        self._server = ArrayServer(transfers, size, rank, background, now_s)
        self._remote = RemoteArrays(transfers, size, rank, failure, log, now_s)

    def register(self, name: str, array: Array) -> RegisteredArray:
        """Let other ranks read and write ``array``."""
        copied_type(array)
        if not array.flags.writeable or not array.flags.c_contiguous:
            raise CollectiveError(
                f"the array to register as {name!r} must be writable and contiguous; register "
                "numpy.ascontiguousarray(array)"
            )
        registered = RegisteredArray(
            name, quoted_path(name), array, self._transfers, self._server.look_again
        )
        self._server.add(registered)
        return registered

    def get(
        self,
        name: str,
        source: int,
        out: Array | None,
        rows: slice | None,
        at_least: int,
        behind: int,
        timeout_s: float,
    ) -> Work[Snapshot]:
        """Start a get."""
        if out is not None:
            require_array(out)
        return self._remote.get(
            name,
            quoted_path(name),
            source,
            out=out,
            rows=_bounds(rows),
            at_least=at_least,
            behind=behind,
            timeout_s=timeout_s,
        )

    def put(
        self,
        name: str,
        to: int,
        array: Array,
        rows: slice | None,
        combine: Combine,
        timeout_s: float,
    ) -> Work[int]:
        """Start a put."""
        copied_type(array)
        if combine not in get_args(Combine):
            raise CollectiveError(
                f"unknown combine={combine!r}; a put can {' or '.join(get_args(Combine))}"
            )
        return self._remote.put(
            name, to, array, rows=_bounds(rows), combine=combine, timeout_s=timeout_s
        )

    def close(self) -> None:
        """Serve no longer."""
        self._server.close()
        self._transfers.close()


def _bounds(rows: slice | None) -> Rows | None:
    if rows is None:
        return None
    first, end = (rows.start or 0, rows.stop) if isinstance(rows, slice) else (0, None)
    if end is None or rows.step not in (None, 1) or not 0 <= first <= end:
        raise CollectiveError(
            f"rows={rows} must be a range of rows with both ends, such as slice(128, 256)"
        )
    return first, end
