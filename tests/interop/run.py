"""Two switches of a run in local mode, as `innet up` starts them; routes by NFD's management."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from innet._native import _core
from innet.cluster.launch import Session
from innet.ndn import Client, Name
from innet.ndn.control import ControlParameters
from innet.topology import load_topology
from tests.interop.nodes import PREFIX, Route

ALSO_IN_A_RUN = pytest.mark.parametrize("route", ["run", "unix", "tcp", "udp"], indirect=True)
"""For a test that is worth the start of a run's processes."""
_TOPOLOGY = Path(__file__).parent / "two_switches.yaml"
_FIB_ENTRY, _NEXT_HOP, _FACE_ID, _NAME = 0x80, 0x81, 0x69, 0x07


@asynccontextmanager
async def two_switches_of_a_run() -> AsyncIterator[Route]:
    """Start them, and let s1 ask s0 for what is served in these tests."""
    async with Session(load_topology(str(_TOPOLOGY))) as session:
        near, far = (
            f"unix://{session.network.config(switch).ndn_socket}" for switch in ("s0", "s1")
        )
        async with Client(far) as client:
            face_id = _next_hop(await client.management.dataset("fib/list"), Name("/n/s0"))
            await client.management.command(
                "rib", "register", ControlParameters(name=Name(PREFIX), face_id=face_id)
            )
            yield Route(producer=near, consumer=far)


def _next_hop(fib: bytes, prefix: Name) -> int:
    """The face by which a forwarder reaches ``prefix``, of its ``fib/list``."""
    for kind, value in _core.read_elements(fib):
        entry = dict(_core.read_elements(value))
        if kind == _FIB_ENTRY and Name.from_value(entry[_NAME]) == prefix:
            return _core.read_number(dict(_core.read_elements(entry[_NEXT_HOP]))[_FACE_ID])
    raise AssertionError(f"no route to {prefix}")
