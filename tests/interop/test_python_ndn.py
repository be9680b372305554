"""python-ndn's programs and ours serve each other, through innet's nodes."""

from __future__ import annotations

import random

import pytest
from ndn.app_support.segment_fetcher import segment_fetcher
from ndn.encoding import Name as TheirName
from ndn.encoding import NonStrictName
from ndn.security.signer import DigestSha256Signer
from ndn.types import InterestNack

from innet.ndn import Client, NackReason, Name, encode_data
from innet.ndn.objects import fetch, publish
from innet.ndn.objects.discovery import decode_metadata
from innet.ndn.wire import parse_data
from tests.interop.python_ndn_apps import appv2, ask, older_app, register, serve_segments
from tests.interop.run import ALSO_IN_A_RUN

CONTENT = random.Random(5).randbytes(30_500)


async def test_our_client_fetches_data_of_appv2(route):
    async with appv2(route.producer) as app, Client(route.consumer) as client:

        def serve(name: NonStrictName, parameters, reply, _context):
            reply(app.make_data(name, b"theirs", DigestSha256Signer(), freshness_period=1000))

        app.attach_handler(route.prefix, serve)
        assert await register(app, route)
        data = await client.express(f"{route.prefix}/x", must_be_fresh=True)
        assert data.content == b"theirs"
        assert await register(app, route, verb="unregister")


async def test_appv2_fetches_data_of_our_client_with_parameters(route):
    async with (
        Client(route.producer, command_signer=route.command_signer) as client,
        appv2(route.consumer) as app,
    ):
        await client.register(
            route.prefix,
            lambda interest: encode_data(
                interest.name, b"ours:" + (interest.parameters or b""), freshness_s=1
            ),
        )
        assert await ask(app, f"{route.prefix}/x") == (f"{route.prefix}/x", b"ours:")
        _, content = await ask(
            app,
            f"{route.prefix}/y",
            app_param=b"signed",
            signer=DigestSha256Signer(for_interest=True),
        )
        assert content == b"ours:signed"


async def test_the_older_interface_produces_and_consumes(route):
    async with older_app(route.producer) as app, older_app(route.consumer) as other:

        def serve(name, _param, _parameters):
            app.put_data(name, content=b"older", freshness_period=1000)

        app.set_interest_filter(route.prefix, serve)
        assert await register(app, route)
        async with Client(route.consumer) as client:
            assert (await client.express(f"{route.prefix}/x")).content == b"older"
        _, _, content = await other.express_interest(f"{route.prefix}/y", must_be_fresh=True)
        assert bytes(content) == b"older"


@ALSO_IN_A_RUN
async def test_our_client_discovers_and_fetches_an_object_of_python_ndn(route):
    async with appv2(route.producer) as app, Client(route.consumer) as client:
        serve_segments(app, route.prefix, 7, CONTENT)
        assert await register(app, route)
        fetched = await fetch(client, route.prefix, patience_s=4)
    assert fetched.name == Name(f"{route.prefix}/v=7")
    assert fetched.content == CONTENT


@ALSO_IN_A_RUN
async def test_python_ndn_discovers_and_fetches_our_object(route):
    async with (
        Client(route.producer, command_signer=route.command_signer) as client,
        older_app(route.consumer) as app,
        await publish(client, route.prefix, CONTENT, segment_bytes=4000) as published,
    ):
        segments = [bytes(part) async for part in segment_fetcher(app, route.prefix)]
        assert b"".join(segments) == CONTENT
        assert len(segments) == published.segments
        name, _, _ = await app.express_interest(
            f"{route.prefix}/32=metadata", can_be_prefix=True, must_be_fresh=True
        )
        assert TheirName.to_str(name).startswith(f"{route.prefix}/32=metadata/")
        _, _, _, packet = await app.express_interest(name, need_raw_packet=True)
        assert decode_metadata(parse_data(bytes(packet))) == published.versioned


async def test_unserved_names_are_nacked(route):
    async with appv2(route.consumer) as app:
        with pytest.raises(InterestNack) as nack:
            await ask(app, "/nobody/serves/this")
    assert nack.value.reason == NackReason.NO_ROUTE
