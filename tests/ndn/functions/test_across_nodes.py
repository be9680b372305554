"""Functions in one process, called from another, through two forwarders and a link between them."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

import innet
from innet._native import _core
from innet.errors import FunctionError
from innet.ndn import Client
from innet.node.native_settings import NodeSizes, native_settings
from innet.settings import Settings

SERVING = Path(__file__).parent / "workers" / "serving.py"
FUNCTIONS = ("/sum", "/double", "/broken")
LINK = 0
PROGRAM = 1


def free_ports() -> list[int]:
    with ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(2)
        ]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def forwarder(stack: ExitStack, name: str, port: int, peer_port: int) -> _core.Node:
    key = _core.SigningKey("digest")
    settings = native_settings(name, Settings(), NodeSizes(seed=port, cache_bytes=1 << 20))
    node = _core.Node(settings, key, [key])
    node.add_link(
        local_address="127.0.0.1",
        local_port=port,
        peer_address="127.0.0.1",
        peer_port=peer_port,
    )
    node.start()
    stack.callback(node.stop, "the test is over")
    return node


@pytest.fixture
def near() -> Iterator[tuple[_core.Node, str]]:
    """The caller's forwarder, behind which another one has the functions; and its URI."""
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="innet-fn-"))
        ports = free_ports()
        near = forwarder(stack, "near", ports[0], ports[1])
        far = forwarder(stack, "far", ports[1], ports[0])
        far_uri = far.listen(f"unix://{directory}/far.sock")
        serving = stack.enter_context(
            subprocess.Popen(
                [sys.executable, str(SERVING), far_uri], stdout=subprocess.PIPE, text=True
            )
        )
        stack.callback(serving.kill)
        assert serving.stdout is not None
        assert serving.stdout.readline() == "serving\n"
        for name in FUNCTIONS:
            near.add_route(name, LINK)
            far.add_route(name, PROGRAM)
        yield near, near.listen(f"unix://{directory}/near.sock")


async def test_calls_and_flows_work_without_a_route_to_the_caller(
    near: tuple[_core.Node, str],
) -> None:
    node, uri = near
    async with Client(uri) as client:
        assert await innet.call("/sum", np.ones(4), client=client) == 4.0
        assert await innet.call("/sum", np.ones(50_000), client=client) == 50_000.0
        with pytest.raises(FunctionError, match="/broken: ValueError: no such frame"):
            await innet.call("/broken", client=client)
        arrays = (np.full(3000, float(i)) for i in range(10))
        sums = [v async for v in innet.flow(arrays, "/double", "/sum", client=client)]
        assert sums == [6000.0 * i for i in range(10)]
    counters = node.status()["node"]
    assert counters["reflexive_interests"] >= 50  # of the large array alone
    assert counters["reflexive_full"] == 0
