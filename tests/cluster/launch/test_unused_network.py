"""A job that ends without a use of innet is told so, and no other one."""

from __future__ import annotations

import asyncio
import sys

from innet.cluster.launch import Session
from innet.cluster.launch.session import UNUSED
from innet.topology import load_topology

USES = "import innet, numpy; innet.init().allreduce(numpy.ones(3))"


def test_a_job_is_told_that_it_has_not_used_innet() -> None:
    """Also after and before one on the same network that does."""
    lines: list[str] = []

    async def run_all() -> list[bool]:
        told = []
        async with Session(
            load_topology("star:2"), output=lambda _, line: lines.append(line)
        ) as net:
            for program in ("pass", USES, "print('hello')"):
                lines.clear()
                await net.run_workers([sys.executable, "-c", program])
                told.append(UNUSED in lines)
        return told

    assert asyncio.run(run_all()) == [True, False, True]
