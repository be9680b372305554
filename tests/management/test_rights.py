"""Who may command a real node."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest

from innet._native import _core
from innet.errors import CommandRefused
from innet.ndn import Client, HmacSigner, Name, encode_interest
from innet.ndn.certificates import CertifiedSigner
from innet.ndn.control import ControlParameters, command_name, encode_prefix_announcement
from innet.node.command_keys import command_key
from innet.security.signers import DigestSigner
from innet.security.trust import Certificate, PrivateKey, Validity
from innet.security.trust.names import name_of

_SECRET = b"a secret of thirty-two bytes ..."


def nobody(_interest):
    return None


async def test_only_listed_keys_can_register(running):
    key = _core.SigningKey("hmac", "/op/KEY/1", _SECRET)
    running.node.authorise_commands([key])
    async with Client(running.uri, command_signer=HmacSigner("/op/KEY/1", _SECRET)) as operator:
        await operator.register("/a", nobody)
        async with Client(running.uri) as other:
            with pytest.raises(CommandRefused, match="403"):
                await other.register("/b", nobody)
        assert running.routes() == ["/a"]
    assert running.counter("forbidden") == 1
    running.node.authorise_commands([])
    async with Client(running.uri) as other:
        await other.register("/b", nobody)


@pytest.mark.parametrize(
    ("left", "is_obeyed"), [(timedelta(hours=1), True), (-timedelta(seconds=1), False)]
)
async def test_a_key_is_obeyed_until_its_certificate_expires(running, left, is_obeyed):
    key, now = PrivateKey.generate("ecdsa"), datetime.now(UTC)
    validity = Validity(now - timedelta(days=1), now + left)
    certificate = Certificate.self_signed(name_of("/op/KEY/1"), key, validity, version=1)
    running.node.authorise_commands([command_key(certificate)])
    async with Client(running.uri, command_signer=CertifiedSigner(key, certificate)) as operator:
        if is_obeyed:
            await operator.register("/a", nobody)
        else:
            with pytest.raises(CommandRefused, match="has expired"):
                await operator.register("/a", nobody)


def _announcement_by(signer):
    """Who may command carries an announcement that ``signer`` signed."""
    packet = encode_prefix_announcement("/a", expiration_s=60, signer=signer)
    return Name("/localhost/nfd/rib/announce"), packet


async def _announced(running, announcement):
    name, parameters = announcement
    async with Client(running.uri) as client:
        signer = HmacSigner("/op/KEY/1", _SECRET)
        packet = encode_interest(name, signer=signer, parameters=parameters)
        return (await client.exchange(packet)).data.content


@pytest.mark.parametrize(
    "signer",
    [
        DigestSigner(),
        HmacSigner("/stranger/KEY/1", b"the stranger's secret"),
        HmacSigner("/op/KEY/1", b"the stranger's secret"),
    ],
    ids=["digest", "stranger", "forger"],
)
async def test_an_announcement_of_an_unlisted_key_is_refused_even_from_a_listed_one(
    running, signer
):
    running.node.authorise_commands([_core.SigningKey("hmac", "/op/KEY/1", _SECRET)])
    refused = await _announced(running, _announcement_by(signer))
    assert b"\x66\x02\x01\x93" in refused  # 403
    assert b"the prefix announcement is refused" in refused
    assert running.counter("announcements_forbidden") == 1
    assert running.counter("routes") == 0
    obeyed = await _announced(running, _announcement_by(HmacSigner("/op/KEY/1", _SECRET)))
    assert b"Success" in obeyed
    assert running.counter("announcements_forbidden") == 1
    assert running.counter("routes") == 1


async def test_a_client_announces_with_its_command_key(running):
    running.node.authorise_commands([_core.SigningKey("hmac", "/op/KEY/1", _SECRET)])
    async with Client(running.uri, command_signer=HmacSigner("/op/KEY/1", _SECRET)) as operator:
        await operator.announce("/a", nobody)
        assert running.routes() == ["/a"]


async def test_a_damaged_announcement_is_refused_without_a_list_of_keys(running):
    name, packet = _announcement_by(DigestSigner())
    damaged = packet[:-1] + bytes([packet[-1] ^ 1])
    assert b"the signature is wrong" in await _announced(running, (name, damaged))
    assert running.counter("announcements_forbidden") == 1
    assert b"Success" in await _announced(running, (name, packet))


def test_a_malformed_key_is_refused_and_changes_nothing(running):
    with pytest.raises(ValueError, match="/op/KEY/1"):
        running.node.authorise_commands([_core.SigningKey("ed25519", "/op/KEY/1", b"short")])


def test_commands_from_neighbours_are_refused_without_a_list_of_keys(running):
    with pytest.raises(ValueError, match="at least one key"):
        running.node.authorise_commands([], localhop_rib=True)


async def test_a_command_with_a_wrong_time_is_refused(running, monkeypatch):
    name = command_name("rib", "register", ControlParameters(name=Name("/a")))
    hour_ago_ns = time.time_ns() - 3600 * 10**9
    with monkeypatch.context() as patched:
        patched.setattr("innet.ndn.wire.time.time_ns", lambda: hour_ago_ns)
        packet = encode_interest(name, signer=DigestSigner(), nonce=1)
    async with Client(running.uri) as client:
        await client.exchange(packet)
    assert running.counter("stale") == 1
    assert running.counter("routes") == 0


async def test_a_replayed_command_is_refused(running):
    name = command_name("rib", "register", ControlParameters(name=Name("/a")))
    packet = encode_interest(name, signer=DigestSigner(), nonce=1)
    again = packet.replace(b"\x0a\x04\x00\x00\x00\x01", b"\x0a\x04\x00\x00\x00\x02")
    async with Client(running.uri) as client:
        assert (await client.exchange(packet)).data.content[4:5] == b"\xc8"
        await client.exchange(again)
    assert running.counter("replayed") == 1


async def test_ten_thousand_registrations_in_a_burst_are_all_answered(running):
    packets = [
        encode_interest(
            command_name("rib", "register", ControlParameters(name=Name(f"/app/{i}"))),
            signer=DigestSigner(),
            lifetime_s=60.0,
        )
        for i in range(10_000)
    ]
    async with Client(running.uri) as client:
        replies = await asyncio.gather(*(client.exchange(packet) for packet in packets))
        assert running.counter("routes") == 10_000
    accepted = sum(b"Success" in reply.data.content for reply in replies)
    assert accepted == 10_000
