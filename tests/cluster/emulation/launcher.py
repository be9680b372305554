"""A program that launches a network, as the command line does; the clean-up tests end it.

Arguments: the mode, and what to do once the network is up: ``wait``, or to ``raise`` or ``leave``
after a line of input. Prints the run's id when a stray grandchild that ignores SIGTERM works in the
network.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Literal, cast

from innet.cluster.emulation.network import Network
from innet.topology import Host, Interface, Link, Switch, Topology

# The worker's child leaves the worker's session and outlives it, as a daemon does.
WORKER = """
import os, signal, sys
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.stdout.close()
    os.write(1, b"stray ready\\n")
    signal.pause()
signal.pause()
"""

TOPOLOGY = Topology(
    name="pair",
    nodes={"h0": Host(name="h0"), "s0": Switch(name="s0"), "h1": Host(name="h1")},
    links=tuple(
        Link(a=Interface(node=host, port="eth0"), b=Interface(node="s0", port=f"eth{i}"))
        for i, host in enumerate(("h0", "h1"))
    ),
)


async def main() -> None:
    mode = cast(Literal["local", "netns"], sys.argv[1])
    ready = asyncio.Event()

    def output(_label: str, line: str) -> None:
        if line == "stray ready":
            ready.set()

    async with Network(TOPOLOGY, mode=mode, output=output) as network:
        network.spawn("h0", [sys.executable, "-c", WORKER])
        await ready.wait()
        print(network.run_id, flush=True)
        if sys.argv[2] == "wait":
            await asyncio.Event().wait()
        await asyncio.to_thread(sys.stdin.readline)
        if sys.argv[2] == "raise":
            raise RuntimeError("the job failed")


if __name__ == "__main__":
    # A test runner in the background of a shell hands down SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    asyncio.run(main())
