"""Launches a network and a job, and prints what each process of it would dump.

The arguments are assignments of settings.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import tempfile
from pathlib import Path

import psutil

from innet.cluster.emulation.runs import find_run
from innet.cluster.launch import Session
from innet.settings import Settings
from innet.topology import load_topology
from tests.said import Said

WORKER = Path(__file__).parents[2] / "attacks" / "workers" / "sums_when_told.py"


def show(label: str, pid: int) -> None:
    limit, _ = psutil.Process(pid).rlimit(psutil.RLIMIT_CORE)
    memory = int(Path(f"/proc/{pid}/coredump_filter").read_text(), 16)
    print(label, limit, memory, flush=True)


async def main() -> None:
    said = Said()
    settings = Settings().with_assignments(sys.argv[1:])
    with tempfile.TemporaryDirectory() as directory:
        go = Path(directory) / "go"
        async with Session(load_topology("star:2"), settings=settings, output=said) as session:
            job = asyncio.ensure_future(session.run_workers([sys.executable, str(WORKER), str(go)]))
            await said.until(("h0", "open"), ("h1", "open"))
            show("launcher", os.getpid())
            for process in find_run(session.network.run_id).processes:
                show(process.label, process.identity.pid)
            go.touch()
            await job


Path("/proc/self/coredump_filter").write_text("0x33")
resource.setrlimit(resource.RLIMIT_CORE, (4096, resource.getrlimit(resource.RLIMIT_CORE)[1]))
asyncio.run(main())
