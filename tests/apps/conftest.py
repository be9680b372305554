"""Runs an app as `innet run` would, on a small network."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from innet.cluster.launch import Session
from innet.topology import load_topology

RunApp = Callable[..., list[str]]

APPS = Path(__file__).parents[2] / "apps"


@pytest.fixture
def run_app() -> RunApp:
    """Run an app with arguments on every host; what all of them printed.

    Raises:
        JobFailed: the app ended with an error.
    """

    def run(app: str, *arguments: object, topology: str = "star:3") -> list[str]:
        lines: list[str] = []

        async def launch() -> None:
            async with Session(
                load_topology(topology), output=lambda _label, line: lines.append(line)
            ) as session:
                command = [sys.executable, str(APPS / app), *map(str, arguments)]
                await session.run_workers(command, env={"OMP_NUM_THREADS": "1"})

        asyncio.run(launch())
        return lines

    return run
