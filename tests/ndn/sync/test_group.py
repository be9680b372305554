import asyncio
import logging
from contextlib import AsyncExitStack
from typing import Any

import pytest

from innet.errors import InnetError, InterestTimeout, TransportError
from innet.names import as_name
from innet.ndn import (
    HmacSigner,
    IntegrityValidator,
    KeyValidator,
    encode_data,
    encode_interest,
    wire,
)
from innet.ndn.sync import Member, StateVector, SyncGroup, SyncTiming, Update
from tests.ndn.sync.shared_medium import SharedMedium

# Who is behind is told at once: no test waits for a timer.
EAGER = SyncTiming(period_s=3600.0, suppression_s=0.0)


async def next_update(group: SyncGroup) -> Update:
    return await asyncio.wait_for(anext(aiter(group.updates())), 20)


def test_all_members_learn_of_a_publication_and_fetch_it() -> None:
    async def run() -> None:
        medium = SharedMedium()
        async with AsyncExitStack() as stack:
            alice, bob, carol = [
                await stack.enter_async_context(
                    SyncGroup(medium.connect(), "/room", f"/{name}", timing=EAGER)
                )
                for name in ("alice", "bob", "carol")
            ]
            first = alice.publish(b"one")
            alice.publish(b"two")
            for other in (bob, carol):
                contents: list[bytes] = []
                while len(contents) < 2:
                    update = await next_update(other)
                    assert update.member == alice.member
                    contents += [data.content for data in await other.fetch(update)]
                assert contents == [b"one", b"two"]
            assert str(first).startswith("/alice/room/t=")
            assert str(first).endswith("/seq=1")
            assert bob.vector == carol.vector == alice.vector == StateVector({alice.member: 2})

    asyncio.run(run())


def test_a_late_member_learns_all_publications() -> None:
    async def run() -> None:
        medium = SharedMedium()
        async with SyncGroup(medium.connect(), "/room", "/alice", timing=EAGER) as alice:
            alice.publish(b"one")
            async with SyncGroup(medium.connect(), "/room", "/bob", timing=EAGER) as bob:
                assert await next_update(bob) == Update(alice.member, 1, 1)

    asyncio.run(run())


def test_a_restarted_member_continues_its_numbers_and_serves_only_its_names() -> None:
    async def run() -> None:
        medium = SharedMedium()
        known = Member(as_name("/alice"), 77)
        async with (
            SyncGroup(
                medium.connect(), "/room", "/alice", timing=EAGER,
                bootstrap_s=77, earlier=StateVector({known: 5}),
            ) as alice,
            SyncGroup(medium.connect(), "/room", "/bob", timing=EAGER) as bob,
        ):  # fmt: skip
            assert str(alice.publish(b"six")) == "/alice/room/t=77/seq=6"
            with pytest.raises(InterestTimeout):
                await bob.fetch(Update(known, 5, 5))
            assert [data.content for data in await bob.fetch(Update(known, 6, 6))] == [b"six"]
            for name in ("/alice/room/t=78/seq=6", "/alice/room/seq=6", "/alice/room/t=77/v=6"):
                assert await medium.clients[0].serve(encode_interest(name)) is None

    asyncio.run(run())


def test_a_sync_interest_is_a_signed_vector_in_its_parameters() -> None:
    async def run() -> None:
        medium = SharedMedium()
        async with SyncGroup(medium.connect(), "/room", "/alice", timing=EAGER) as alice:
            alice.publish(b"one")
            interest = wire.parse_interest(medium.sent[-1])
            assert str(interest.name.prefix(2)) == "/room/v=3"
            assert len(interest.name) == 3
            assert interest.lifetime_s == 1.0
            assert interest.parameters_digest_holds()
            data = wire.parse_data(interest.parameters or b"")
            assert str(data.name) == "/room/v=3"
            assert StateVector.decode(data.content) == alice.vector
            await IntegrityValidator().check(str(data.name), data)

    asyncio.run(run())


def test_unverifiable_vectors_are_ignored(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        medium = SharedMedium()
        secret = b"a secret of the room"
        stranger = Member(as_name("/eve"), 1)
        vector = StateVector({stranger: 9}).encode()
        async with SyncGroup(
            medium.connect(), "/room", "/alice", timing=EAGER,
            signer=HmacSigner("/room/KEY", secret),
            validator=KeyValidator({"/room/KEY": secret}),
        ) as alice:  # fmt: skip
            good = HmacSigner("/room/KEY", secret)
            for parameters in (
                encode_data("/room/v=3", vector),
                encode_data("/room/v=3", vector, signer=HmacSigner("/room/KEY", b"other")),
                encode_data("/elsewhere/v=3", vector, signer=good),
                encode_data("/room/v=3", vector[:-1], signer=good),
                vector,
                b"",
            ):
                await medium.clients[0].serve(encode_interest("/room/v=3", parameters=parameters))
                assert alice.vector == StateVector()
            right = encode_data("/room/v=3", vector, signer=good)
            await medium.clients[0].serve(encode_interest("/room/v=3", parameters=right))
            assert alice.vector == StateVector({stranger: 9})

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert caplog.text.count("ignored a state vector for /room") == 6


def test_a_forged_vector_suppresses_nobody_and_fetches_of_missing_data_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> None:
        medium = SharedMedium()

        async def forge(at: int, numbers: dict[Member, int]) -> None:
            vector = encode_data("/room/v=3", StateVector(numbers).encode())
            await medium.clients[at].serve(encode_interest("/room/v=3", parameters=vector))

        async with (
            SyncGroup(medium.connect(), "/room", "/alice", timing=EAGER) as alice,
            SyncGroup(medium.connect(), "/room", "/bob", timing=EAGER) as bob,
        ):
            await forge(0, {alice.member: 2**64 - 1})
            alice.publish(b"one")
            assert await next_update(bob) == Update(alice.member, 1, 1)

            await forge(1, {alice.member: 2**64 - 1})
            assert bob.vector == alice.vector
            await forge(1, {alice.member: 1_000_000})
            update = await next_update(bob)
            assert update == Update(alice.member, 2, 1_000_000)
            with pytest.raises(InterestTimeout):
                await bob.fetch(update)
            assert len(medium.asked) < 100

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert "a state vector for /room claims" in caplog.text
    assert "ignored 1 entries of a state vector for /room: /alice is said to" in caplog.text


def test_undelivered_publications_are_one_update_per_member() -> None:
    async def run() -> None:
        medium = SharedMedium()
        async with (
            SyncGroup(medium.connect(), "/room", "/alice", timing=EAGER) as alice,
            SyncGroup(medium.connect(), "/room", "/bob", timing=EAGER) as bob,
        ):
            for number in range(100):
                alice.publish(b"%d" % number)
                await medium.quiet()
            update = await next_update(bob)
            assert update == Update(alice.member, 1, 100)
            contents = [data.content for data in await bob.fetch(update)]
            assert contents == [b"%d" % number for number in range(100)]

    asyncio.run(run())


def test_multicast_is_requested_from_the_forwarder_which_can_refuse(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run(refuses: bool, **options: Any) -> SharedMedium:
        medium = SharedMedium(refuses=refuses)
        async with SyncGroup(medium.connect(), "/room", "/alice", timing=EAGER, **options):
            return medium

    multicast = ("strategy-choice", "set", "/room", "/localhost/nfd/strategy/multicast")
    assert asyncio.run(run(False)).commands == [multicast]
    assert asyncio.run(run(False, choose_strategy=False)).commands == []
    assert "multicast" not in caplog.text
    asyncio.run(run(True))
    assert "may not receive each other" in caplog.text


def test_closing_a_group_ends_its_updates_and_unregisters_its_prefixes() -> None:
    async def run() -> None:
        medium = SharedMedium()
        group = SyncGroup(medium.connect(), "/room", "/alice", timing=EAGER)
        async with group:
            assert len(medium.clients[0].handlers) == 2
            waiting = asyncio.ensure_future(anext(aiter(group.updates()), None))
        assert await waiting is None
        assert not medium.clients[0].handlers

    asyncio.run(run())


def test_a_publication_that_is_too_large_is_refused() -> None:
    async def run() -> None:
        async with SyncGroup(SharedMedium().connect(), "/room", "/alice", timing=EAGER) as alice:
            with pytest.raises(TransportError, match="8800"):
                alice.publish(bytes(9000))
            assert alice.vector == StateVector()

    asyncio.run(run())


def test_using_a_group_that_is_not_open_raises() -> None:
    with pytest.raises(InnetError, match="async with"):
        SyncGroup(SharedMedium().connect(), "/room", "/alice").publish(b"one")
