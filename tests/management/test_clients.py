"""Clients of other implementations command a real node."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from ndn.app import NDNApp as OlderApp
from ndn.app_support import nfd_mgmt
from ndn.appv2 import NDNApp, pass_all
from ndn.encoding import Component, Name
from ndn.security import DigestSha256Signer, KeychainDigest
from ndn.transport.stream_face import UnixFace

from innet.ndn import Client
from innet.ndn.address import FaceAddress
from innet.ndn.sync import StateVector, SyncGroup, SyncTiming


@asynccontextmanager
async def application(uri, kind=NDNApp, **options):
    app = kind(face=UnixFace(FaceAddress.parse(uri).path), **options)
    started = asyncio.Event()

    async def tell():
        started.set()

    loop = asyncio.create_task(app.main_loop(tell()))
    await started.wait()
    try:
        yield app
    finally:
        app.shutdown()
        await loop


async def command(app, module, verb, **parameters):
    """As python-ndn's nfdc gives commands."""
    name = nfd_mgmt.make_command_v2(module, verb, app.face, **parameters)
    _, content, _ = await app.express(
        name, app_param=b"", signer=DigestSha256Signer(for_interest=True), validator=pass_all
    )
    return nfd_mgmt.parse_response(content)


async def dataset(app, name, kind):
    """As python-ndn's nfdc asks for datasets."""
    _, content, _ = await app.express(
        name, validator=pass_all, app_param=b"", signer=DigestSha256Signer(True),
        can_be_prefix=True, must_be_fresh=True,
    )  # fmt: skip
    return kind.parse(content)


async def test_both_python_ndn_interfaces_can_register(running):
    async with application(running.uri) as app:
        assert await app.registerer.register("/current")
        async with application(running.uri, OlderApp, keychain=KeychainDigest()) as older:
            assert await older.register("/older", None)
            rib = await dataset(app, "/localhost/nfd/rib/list", nfd_mgmt.RibStatus)
            assert {Name.to_str(entry.name) for entry in rib.entries} == {"/current", "/older"}
            assert await app.registerer.unregister("/current")
            assert running.routes() == ["/older"]
    async with asyncio.timeout(30):  # both have left; the node reads that when it comes to it
        while running.counter("routes"):  # noqa: ASYNC110  # no event tells of it
            await asyncio.sleep(0)


async def test_every_dataset_of_nfdc_can_be_read(running):
    async with application(running.uri) as app:
        assert await app.registerer.register("/a")
        status = await dataset(app, "/localhost/nfd/status/general", nfd_mgmt.GeneralStatus)
        assert status.nfd_version.startswith("innet ")
        assert 0 < status.start_timestamp <= status.current_timestamp
        faces = await dataset(app, "/localhost/nfd/faces/list", nfd_mgmt.FaceStatusMsg)
        mine = next(face for face in faces.face_status if face.n_in_interests)
        assert mine.face_scope is nfd_mgmt.FaceScope.LOCAL
        fib = await dataset(app, "/localhost/nfd/fib/list", nfd_mgmt.FibStatus)
        hops = {Name.to_str(entry.name): entry.next_hop_records for entry in fib.entries}
        assert [hop.face_id for hop in hops["/a"]] == [mine.face_id]
        query = nfd_mgmt.FaceQueryFilter()
        query.face_query_filter = nfd_mgmt.FaceQueryFilterValue()
        query.face_query_filter.face_id = mine.face_id
        name = [*Name.from_str("/localhost/nfd/faces/query"), Component.from_bytes(query.encode())]
        found = await dataset(app, name, nfd_mgmt.FaceStatusMsg)
        assert [face.face_id for face in found.face_status] == [mine.face_id]
        choices = await dataset(
            app, "/localhost/nfd/strategy-choice/list", nfd_mgmt.StrategyChoiceMsg
        )
        assert [Name.to_str(choice.name) for choice in choices.strategy_choices] == ["/"]


async def test_a_face_is_created_and_destroyed(running, tmp_path):
    peer_uri = running.node.listen("udp4://127.0.0.1:0")
    async with application(running.uri) as app:
        made = await command(app, "faces", "create", uri=peer_uri)
        assert made["status_code"] == 200
        assert made["uri"] == peer_uri
        again = await command(app, "faces", "create", uri=peer_uri)
        assert again["status_code"] == 409
        assert again["face_id"] == made["face_id"]
        route = await command(app, "rib", "register", name="/far", face_id=made["face_id"])
        assert route["status_code"] == 200
        gone = await command(app, "faces", "destroy", face_id=made["face_id"])
        assert gone["status_code"] == 200
        for _ in range(1000):
            if "/far" not in running.routes():
                break
            await asyncio.sleep(0.01)
        assert running.routes() == []


@pytest.mark.parametrize(
    ("uri", "code"),
    [("smtp://127.0.0.1:25", 501), ("udp4://nowhere", 400), ("tcp4://127.0.0.1:1", 504)],
)
async def test_a_face_that_cannot_be_created_is_refused_with_a_body(running, uri, code):
    async with application(running.uri) as app:
        refused = await command(app, "faces", "create", uri=uri)
        assert (refused["status_code"], refused["uri"]) == (code, uri)


async def test_the_content_store_is_configured(running):
    async with application(running.uri) as app:
        changed = await command(app, "cs", "config", capacity=10)
        assert (changed["status_code"], changed["capacity"], changed["flags"]) == (200, 10, 3)
        erased = await command(app, "cs", "erase", name="/")
        assert (erased["status_code"], erased["count"]) == (200, 0)


async def test_members_at_one_node_receive_each_others_publications(running):
    timing = SyncTiming(period_s=3600.0, suppression_s=0.01)
    async with AsyncExitStack() as stack:
        groups = []
        for name in ("alice", "bob", "carol"):
            client = await stack.enter_async_context(Client(running.uri))
            group = SyncGroup(client, "/room", f"/{name}", timing=timing)
            groups.append(await stack.enter_async_context(group))
        for number, group in enumerate(groups):
            group.publish(f"from {number}".encode())
        everything = StateVector({group.member: 1 for group in groups})
        for group in groups:
            contents = set()
            async for update in group.updates():
                contents |= {data.content for data in await group.fetch(update)}
                if len(contents) == 2:
                    break
            expected = {f"from {n}".encode() for n, g in enumerate(groups) if g is not group}
            assert contents == expected
            assert group.vector == everything
