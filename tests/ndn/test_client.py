"""What programs see of the client, with a scripted forwarder at its other end."""

from __future__ import annotations

import asyncio

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from innet._native import _core
from innet.errors import (
    CommandRefused,
    InterestRefused,
    InterestTimeout,
    NoForwarder,
    SecurityError,
)
from innet.names import number_at, with_segment
from innet.ndn import (
    Client,
    EcdsaSigner,
    Ed25519Signer,
    HmacSigner,
    KeyValidator,
    Name,
    Refusal,
    encode_data,
    encode_interest,
)
from innet.ndn.wire import encode_lp_packet, parse_data, parse_interest, parse_lp_packet
from innet.tlv_numbers import ComponentType
from tests.ndn.scripted_forwarder import ScriptedForwarder, control_response


@pytest.fixture
async def forwarder(tmp_path):
    async with ScriptedForwarder(tmp_path / "ndn.sock") as forwarder:
        yield forwarder


@pytest.fixture
async def client(forwarder):
    async with Client(forwarder.uri) as client:
        yield client


async def test_data_are_fetched_by_exact_name_and_by_prefix(client, forwarder):
    forwarder.script = lambda interest: encode_data("/a/b/v=1", b"content")
    assert (await client.express("/a/b/v=1")).content == b"content"
    assert (await client.express("/a/b", can_be_prefix=True)).name == Name("/a/b/v=1")
    assert forwarder.interests[1].can_be_prefix


async def test_a_lost_interest_is_sent_again_with_another_nonce(client, forwarder):
    def second_time(interest):
        return encode_data(interest.name) if len(forwarder.interests) == 2 else None

    forwarder.script = second_time
    await client.express("/a", lifetime_s=0.02, deadline_s=60)
    first, second = forwarder.interests
    assert first.nonce != second.nonce


async def test_a_timeout_names_the_interest(client):
    with pytest.raises(InterestTimeout, match=r"/nobody/here within 0\.03 s"):
        await client.express("/nobody/here", deadline_s=0.03)


@pytest.mark.parametrize(("reason", "word"), [(150, "route"), (202, "job"), (77, "reason 77")])
async def test_a_nack_raises_with_its_reason(client, forwarder, reason, word):
    forwarder.script = lambda interest: encode_lp_packet(interest.wire, nack_reason=reason)
    with pytest.raises(InterestRefused, match=word) as refused:
        await client.express("/a", deadline_s=60)
    assert refused.value.reason == reason


async def test_a_damaged_packet_is_refused(client, forwarder):
    packet = bytearray(encode_data("/a", b"content"))
    packet[-1] ^= 1
    forwarder.script = lambda interest: bytes(packet)
    with pytest.raises(SecurityError, match="damaged"):
        await client.express("/a")


ED25519 = ed25519.Ed25519PrivateKey.generate()
ECDSA = ec.generate_private_key(ec.SECP256R1())


@pytest.mark.parametrize(
    ("signer", "right", "wrong"),
    [
        (
            Ed25519Signer("/k", ED25519),
            ED25519.public_key(),
            ed25519.Ed25519PrivateKey.generate().public_key(),
        ),
        (
            EcdsaSigner("/k", ECDSA),
            ECDSA.public_key(),
            ec.generate_private_key(ec.SECP256R1()).public_key(),
        ),
        (HmacSigner("/k", b"secret"), b"secret", b"another"),
    ],
    ids=["ed25519", "ecdsa", "hmac"],
)
async def test_only_data_of_the_right_key_are_accepted(client, forwarder, signer, right, wrong):
    forwarder.script = lambda interest: encode_data(interest.name, b"content", signer=signer)
    data = await client.express("/a", validator=KeyValidator({"/k": right}))
    assert data.content == b"content"
    for keys in ({"/k": wrong}, {"/other": right}):
        with pytest.raises(SecurityError):
            await client.express("/a", validator=KeyValidator(keys))


async def test_a_producer_answers_with_the_token_that_the_interest_had(client, forwarder):
    await client.register("/p", lambda interest: encode_data(interest.name, b"mine"))
    assert forwarder.command_names == ["rib/register"]
    for token in (b"", b"t", bytes(32)):
        interest = encode_interest("/p/x")
        forwarder.send(encode_lp_packet(interest, pit_token=token) if token else interest)
        answer = parse_lp_packet(await forwarder.received.get())
        assert answer.pit_token == token
        assert parse_data(answer.payload).content == b"mine"


async def test_the_longest_prefix_serves_and_can_refuse_or_delay(client, forwarder):
    async def slow(interest):
        await asyncio.sleep(0)
        return encode_data(interest.name, b"slow")

    client.produce("/p", slow)
    client.produce("/p/none", lambda interest: Refusal())
    forwarder.send(encode_interest("/p/none/x"))
    refusal = parse_lp_packet(await forwarder.received.get())
    assert refusal.nack_reason == 150
    assert parse_interest(refusal.payload).name == Name("/p/none/x")
    forwarder.send(encode_interest("/p/x"))
    assert parse_data(await forwarder.received.get()).content == b"slow"


async def test_parameters_with_a_wrong_digest_reach_no_producer(client, forwarder):
    client.produce("/p", lambda interest: encode_data(interest.name, interest.parameters or b""))
    forged = bytearray(encode_interest("/p/x", parameters=b"pay 1"))
    forged[-1] = ord("9")
    forwarder.send(bytes(forged))
    forwarder.send(encode_interest("/p/x", parameters=b"pay 2"))
    assert parse_data(await forwarder.received.get()).content == b"pay 2"


async def test_a_refused_registration_raises_its_reason_and_serves_nothing(client, forwarder):
    forwarder.commands = lambda interest: control_response(interest, 403, "not yours")
    with pytest.raises(CommandRefused, match=r"/localhost/nfd/rib/register: 403 not yours"):
        await client.register("/p", lambda interest: encode_data(interest.name))
    forwarder.commands = control_response
    await client.register("/q", lambda interest: encode_data(interest.name))
    forwarder.send(encode_interest("/p/x") + encode_interest("/q/x"))
    assert parse_data(await forwarder.received.get()).name == Name("/q/x")


async def test_a_restarted_forwarder_gets_all_registrations_again(client, forwarder):
    await client.register("/p", lambda interest: encode_data(interest.name, b"mine"))
    waiting = asyncio.ensure_future(client.express("/a", lifetime_s=60, deadline_s=60))
    await forwarder.until(lambda: len(forwarder.interests) == 2)
    await forwarder.stop()
    forwarder.interests.clear()
    forwarder.script = lambda interest: encode_data(interest.name, b"after")
    await forwarder.listen()
    assert (await waiting).content == b"after"
    await forwarder.until(lambda: forwarder.command_names == ["rib/register"])
    forwarder.send(encode_interest("/p/x"))
    assert parse_data(await forwarder.received.get()).content == b"mine"


def prefixes_registered(forwarder, response=control_response):
    """What is registered from now on, in order; commands are answered by ``response``."""
    prefixes = []

    def obey(interest):
        parameters = dict(_core.read_elements(interest.name[4][1]))[0x68]
        prefix = str(Name.from_value(dict(_core.read_elements(parameters))[0x07]))
        answer = response(interest, 403 if prefix == "/refused" else 200)
        if answer:
            prefixes.append(prefix)
        return answer

    forwarder.commands = obey
    return prefixes


async def test_a_refused_prefix_does_not_prevent_the_registration_of_others(client, forwarder):
    for prefix in ("/refused", "/p", "/q"):
        await client.register(prefix, lambda interest: None)
    prefixes = prefixes_registered(forwarder)
    await forwarder.stop()
    await forwarder.listen()
    await forwarder.until(lambda: len(prefixes) == 3)
    assert set(prefixes) == {"/refused", "/p", "/q"}


async def test_prefixes_are_registered_again_after_a_second_restart(client, forwarder):
    for prefix in ("/p", "/q"):
        await client.register(prefix, lambda interest: None)
    answers_one = iter([True])
    prefixes = prefixes_registered(
        forwarder, lambda *said: control_response(*said) if next(answers_one, False) else None
    )
    await forwarder.stop()
    await forwarder.listen()
    commands = len(forwarder.interests)
    await forwarder.until(lambda: len(forwarder.interests) == commands + 2)
    (renewed,) = prefixes  # and the other one is under way: the forwarder restarts now
    prefixes = prefixes_registered(forwarder)
    await forwarder.stop()
    await forwarder.listen()
    await forwarder.until(lambda: {"/p", "/q"} <= set(prefixes))
    assert renewed in prefixes


async def test_closing_unregisters_prefixes_and_ends_pending_fetches(forwarder):
    async with Client(forwarder.uri) as client:
        await client.register("/p", lambda interest: None)
        await client.announce("/q", lambda interest: None)
        waiting = asyncio.ensure_future(client.express("/a", lifetime_s=60, deadline_s=60))
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert forwarder.command_names == [
        "rib/register",
        "rib/announce",
        "rib/unregister",
        "rib/unregister",
    ]


@pytest.mark.parametrize("scheme", ["unix", "tcp"])
async def test_an_absent_forwarder_raises_an_error_that_says_what_to_start(
    tmp_path, scheme, unused_port
):
    address = f"unix://{tmp_path}/none" if scheme == "unix" else f"tcp://127.0.0.1:{unused_port}"
    with pytest.raises(NoForwarder, match="innet forwarder"):
        await Client(address).open()


@pytest.fixture
async def unused_port():
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return port


@pytest.mark.parametrize("address", ["", "nfd.sock", "unix://", "tcp://", "tcp://h:x", "ws://h"])
def test_an_invalid_address_is_refused_with_examples(address):
    with pytest.raises(NoForwarder, match="unix:///"):
        Client(address)


async def test_garbage_from_the_forwarder_does_not_stop_the_client(client, forwarder):
    forwarder.send(bytes.fromhex("0603070180") + bytes.fromhex("6400"))
    forwarder.script = lambda interest: encode_data(interest.name)
    assert (await client.express("/a", deadline_s=60)).name == Name("/a")


async def test_the_status_of_the_forwarder_is_received_completely(client, forwarder):
    version = "/localhost/nfd/fib/list/v=3"

    def dataset(interest):
        segment = number_at(interest.name, -1, ComponentType.SEGMENT) or 0
        return encode_data(
            with_segment(version, segment),
            b"%d" % segment,
            freshness_s=1,
            final_component=with_segment("/", 2),
        )

    forwarder.commands = dataset
    assert await client.management.dataset("fib/list") == b"012"


class _Answering(asyncio.DatagramProtocol):
    """A forwarder over UDP that answers every Interest."""

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, addr):
        self.transport.sendto(encode_data(parse_interest(data).name, b"by UDP"), addr)


async def test_a_forwarder_over_udp_that_starts_later_is_found(unused_port):
    async with Client(f"udp://127.0.0.1:{unused_port}") as client:
        asking = asyncio.ensure_future(client.express("/a", lifetime_s=0.05, deadline_s=60))
        with pytest.raises(NoForwarder, match="was lost"):
            await client.express("/b", lifetime_s=0.05, deadline_s=0.2)
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            _Answering, local_addr=("127.0.0.1", unused_port)
        )
        assert (await asking).content == b"by UDP"
        transport.close()
