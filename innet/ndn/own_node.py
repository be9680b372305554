"""The node of a job's host, which runs inside the host's worker."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from innet.ndn.address import INNET_VARIABLE, FaceAddress


async def open_own_node(address: FaceAddress) -> None:
    """Open the node of this worker process, if ``address`` is its socket and it is not open yet.

    So a program that is nothing but an NDN program runs as a job's worker, too.

    Raises:
        EmulationError: the node cannot be opened.
    """
    if os.environ.get(INNET_VARIABLE) == str(address):
        await asyncio.to_thread(_open, Path(address.path))


def _open(socket: Path) -> None:
    from innet.worker.current import current_worker
    from innet.worker.job_file import JOB_VARIABLE

    if JOB_VARIABLE in os.environ and not socket.exists():
        current_worker()
