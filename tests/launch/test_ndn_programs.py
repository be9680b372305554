"""NDN programs as jobs, and beside them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from innet.errors import InterestRefused
from innet.launch import Session
from innet.ndn import Client
from innet.topology import load_topology


def test_a_program_of_ndn_alone_finds_the_node_of_its_host(run_job: Any) -> None:
    result = run_job("ndn_program.py", topology="star:2")
    assert result.failure == ""
    for host in ("h0", "h1"):
        assert f"refused by the node of {host}" in result.said(host)


async def _ask(uri: str) -> None:
    async with Client(uri) as client:
        with pytest.raises(InterestRefused):
            await client.express("/nobody/has/this", deadline_s=20)


def test_strangers_connect_to_a_switch_of_a_run() -> None:
    async def connect() -> None:
        async with Session(load_topology("star:2")) as session:
            config = session.network.config("s0")
            await _ask(f"unix://{config.ndn_socket}")
            status = await session.status()
            assert status["s0"]["listeners"] == [f"unix://{config.ndn_socket}"]

    asyncio.run(connect())
