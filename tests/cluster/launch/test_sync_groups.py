"""Members of a group at several nodes of a run receive each other's publications."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from innet.cluster.launch import Session
from innet.ndn import Client
from innet.ndn.sync import SyncGroup, SyncTiming
from innet.settings import Settings, SettingsError
from innet.topology import load_topology

# The spine has no member, and so nobody there asks for the multicast strategy.
TOPOLOGY, LEAVES = "leaf-spine:3x1x1", ("leaf0", "leaf1", "leaf2")
# What is said before the routes are there is said again soon.
TIMING = SyncTiming(period_s=0.5)


async def _heard(group: SyncGroup, others: int) -> set[str]:
    """Of whom ``group`` has heard, when these are so many others."""
    names: set[str] = set()
    async for update in group.updates():
        names.add(str(update.member.node))
        if len(names) == others:
            break
    return names


def test_all_members_receive_each_other_across_the_network() -> None:
    async def run() -> list[set[str]]:
        settings = Settings().with_assignments(["ndn.multicast=/elsewhere,/chat"])
        async with (
            Session(load_topology(TOPOLOGY), settings=settings) as session,
            AsyncExitStack() as stack,
        ):
            groups = []
            for leaf in LEAVES:
                socket = session.network.config(leaf).ndn_socket
                client = await stack.enter_async_context(Client(f"unix://{socket}"))
                group = SyncGroup(client, "/chat/room", f"/{leaf}", timing=TIMING)
                groups.append(await stack.enter_async_context(group))
            for group in groups:
                group.publish(b"hello")
            return await asyncio.gather(*(_heard(group, 2) for group in groups))

    assert asyncio.run(run()) == [{f"/{leaf}" for leaf in LEAVES} - {f"/{me}"} for me in LEAVES]


def test_an_invalid_prefix_is_refused() -> None:
    with pytest.raises(SettingsError, match="multicast"):
        Settings().with_assignments(["ndn.multicast=chat"])
