"""Programs with engines in them, as workers of a real run."""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from innet.cluster.launch import Session
from innet.topology import load_topology

_ROOT = Path(__file__).parents[2]


def run_on_two_hosts(
    arguments: Sequence[str], env: Mapping[str, str] | None = None
) -> dict[str, list[str]]:
    """What Python with these arguments prints on each of two hosts, by host."""
    lines: dict[str, list[str]] = defaultdict(list)

    async def launch() -> None:
        async with Session(
            load_topology("star:2"), output=lambda node, line: lines[node].append(line)
        ) as session:
            await session.run_workers(
                [sys.executable, *arguments],
                env={"PYTHONPATH": str(_ROOT), "OMP_NUM_THREADS": "1", **(env or {})},
            )

    asyncio.run(launch())
    return dict(lines)
