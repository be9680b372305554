"""NDNts' programs and ours serve each other, through innet's nodes."""

from __future__ import annotations

import hashlib
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from innet._native import _core
from innet.ndn import Client, Name, encode_data
from innet.ndn.objects import discover_version, fetch, publish
from innet.ndn.sync import SyncGroup, SyncTiming
from tests.interop.ndnts_peer import NdntsPeer, missing
from tests.interop.nodes import Route, listening_node
from tests.interop.run import ALSO_IN_A_RUN

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")

TEXT = "".join(random.Random(5).choices("abcdefgh", k=20_500))
_KEY = "/interop/theirs/KEY/1"
TELLING_AT_ONCE = SyncTiming(suppression_s=0.0)


@asynccontextmanager
async def producing_peer(route: Route) -> AsyncIterator[NdntsPeer]:
    """It registers with a key of its own where its node wants one."""
    async with NdntsPeer(route.producer, _KEY if route.over_ip else None) as peer:
        if route.over_ip:
            route.admit(_core.SigningKey("ecdsa", _KEY, peer.public_key))
        yield peer


async def test_ndnts_fetches_data_of_our_producer(route):
    async with (
        Client(route.producer, command_signer=route.command_signer) as client,
        NdntsPeer(route.consumer) as peer,
    ):
        await client.register(
            route.prefix, lambda interest: encode_data(interest.name, b"ours", freshness_s=1)
        )
        assert (await peer.do("peek", name=f"{route.prefix}/x"))["text"] == "ours"


@ALSO_IN_A_RUN
async def test_our_client_discovers_and_fetches_an_object_of_ndnts(route):
    async with producing_peer(route) as peer, Client(route.consumer) as client:
        await peer.do("serve", name=route.prefix, version=7, text=TEXT, chunk=1000)
        versioned = Name(f"{route.prefix}/v=7")
        assert await discover_version(client, route.prefix) == versioned
        fetched = await fetch(client, route.prefix)
    assert fetched.name == versioned
    assert fetched.content.decode() == TEXT
    assert fetched.segments == 21


@ALSO_IN_A_RUN
async def test_ndnts_discovers_and_fetches_our_object(route):
    async with (
        Client(route.producer, command_signer=route.command_signer) as client,
        NdntsPeer(route.consumer) as peer,
        await publish(client, route.prefix, TEXT.encode(), version=9, segment_bytes=4000),
    ):
        fetched = await peer.do("fetch", name=route.prefix)
    assert fetched["size"] == len(TEXT)
    assert fetched["sha256"] == hashlib.sha256(TEXT.encode()).hexdigest()
    assert fetched["name"].endswith("/54=%09")


async def test_innet_and_ndnts_synchronise_by_state_vector_sync(tmp_path):
    with listening_node(f"unix://{tmp_path}/h0.ndn") as (_, uri):
        async with (
            Client(uri) as client,
            NdntsPeer(uri) as peer,
            SyncGroup(client, "/interop/room", "/interop/ours", timing=TELLING_AT_ONCE) as group,
        ):
            group.publish(b"before they came")
            await peer.do("join", group="/interop/room", node="/interop/theirs")
            await peer.do("publish", text="theirs")
            update = await anext(aiter(group.updates()))
            assert update.member.node == Name("/interop/theirs")
            assert [data.content for data in await group.fetch(update)] == [b"theirs"]
            # Who is behind is told.
            ours = "/8=interop/8=ours"
            assert await peer.do("hear") == {"node": ours, "texts": ["before they came"]}
            group.publish(b"while they listen")
            assert await peer.do("hear") == {"node": ours, "texts": ["while they listen"]}
