"""``innet publish``, ``fetch``, ``peek`` and ``ping``, with a forwarder that is a script."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import pytest
from typer.testing import CliRunner

from innet.cli.main import app
from innet.names import number_at, with_keyword, with_segment
from innet.ndn import Name, encode_data, encode_interest
from innet.ndn.objects.discovery import encode_metadata
from innet.ndn.wire import parse_data, parse_lp_packet
from innet.security.signers import DigestSigner
from innet.tlv_numbers import ComponentType
from tests.ndn.scripted_forwarder import ScriptedForwarder, control_response


@pytest.fixture
async def forwarder(tmp_path):
    async with ScriptedForwarder(tmp_path / "ndn.sock") as forwarder:
        yield forwarder


async def innet(forwarder: ScriptedForwarder, *arguments: str, **variables: str) -> Any:
    """A command, with ``forwarder`` as the forwarder that it talks to."""
    environment = {"INNET_NDN": forwarder.uri, **variables}
    return await asyncio.to_thread(CliRunner(env=environment).invoke, app, list(arguments))


async def test_peek_writes_the_content_or_the_packet(forwarder):
    forwarder.script = lambda interest: encode_data("/a/b", b"content")
    assert (await innet(forwarder, "peek", "/a/b")).stdout_bytes == b"content"
    result = await innet(forwarder, "peek", "/a", "--prefix", "--fresh", "--packet", "-v")
    assert result.stdout_bytes == encode_data("/a/b", b"content")
    assert "/a/b: 7 bytes" in result.stderr
    plain, prefix = forwarder.interests
    assert (plain.can_be_prefix, plain.must_be_fresh, plain.lifetime_s) == (False, False, 4)
    assert (prefix.can_be_prefix, prefix.must_be_fresh) == (True, True)


@pytest.mark.parametrize("command", ["fetch", "peek", "ping", "publish"])
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("alice", "such as /alice/photo"),
        ("/alice/%zz", "two hexadecimal digits"),
        ("/alice//photo", "a component is empty"),
        ("/alice/a=b", "before the equals sign"),
    ],
)
async def test_a_malformed_name_is_a_usage_error_and_sends_nothing(
    forwarder, tmp_path, command, name, why
):
    file = tmp_path / "photo"
    file.write_bytes(b"content")
    result = await innet(forwarder, command, name, *([str(file)] if command == "publish" else []))
    assert result.exit_code == 2
    message = " ".join(result.stderr.replace("│", " ").split())
    assert f"not an NDN name: {name}" in message
    assert why in message
    assert not forwarder.interests


async def test_pings_are_compatible_with_ndnping(forwarder):
    forwarder.script = lambda interest: (
        encode_data(interest.name) if len(forwarder.interests) != 2 else None
    )
    result = await innet(
        forwarder, "ping", "/site", "--count", "3", "--interval", "0", "--timeout", "0.05"
    )
    assert result.exit_code == 1
    assert "3 sent, 2 answered, 33 % lost" in result.stdout
    numbers = [interest.name[-1] for interest in forwarder.interests]
    assert all(interest.must_be_fresh for interest in forwarder.interests)
    assert {interest.name.prefix(2) for interest in forwarder.interests} == {Name("/site/ping")}
    first = int(numbers[0][1])
    assert [int(value) for _, value in numbers] == [first, first + 1, first + 2]


async def test_fetch_writes_a_file_and_reports_it(forwarder, tmp_path):
    versioned = Name("/x/v=5")

    def serve(interest):
        if with_keyword("/x", b"metadata").is_prefix_of(interest.name):
            return encode_metadata(Name("/x"), versioned, 5, DigestSigner())
        segment = number_at(interest.name, -1, ComponentType.SEGMENT)
        assert segment is not None
        return encode_data(interest.name, b"%d" % segment, final_component=with_segment("/", 2))

    forwarder.script = serve
    target = tmp_path / "x"
    result = await innet(forwarder, "fetch", "/x", "-o", str(target))
    assert target.read_bytes() == b"012"
    assert "/x/v=5: 3 bytes in 3 segments" in result.stderr
    assert "warning: no signature was verified" in result.stderr
    assert "--anchor" in result.stderr
    assert (await innet(forwarder, "fetch", "/x/v=5")).stdout_bytes == b"012"


async def test_a_pipe_is_published_whole_and_a_file_that_changes_ends_the_command(
    forwarder, tmp_path
):
    async def start(*arguments: str, **streams: Any) -> Any:
        environment = {**os.environ, "INNET_NDN": forwarder.uri}
        command = (sys.executable, "-m", "innet", "publish", *arguments)
        return await asyncio.create_subprocess_exec(*command, env=environment, **streams)

    async def content_of(name: str) -> bytes:
        forwarder.send(encode_interest(name, can_be_prefix=True))
        return parse_data(await forwarder.received.get()).content

    forwarder.script = lambda interest: None
    piped = await start("/p", "/dev/stdin", stdin=asyncio.subprocess.PIPE)
    assert piped.stdin is not None
    piped.stdin.write(b"of a pipe")
    piped.stdin.close()
    await forwarder.until(lambda: "rib/register" in forwarder.command_names)
    assert await content_of("/p") == b"of a pipe"
    piped.terminate()
    await piped.wait()

    forwarder.interests.clear()
    (tmp_path / "file").write_bytes(bytes(3 << 20))
    of_file = await start(
        "/q", str(tmp_path / "file"), "--version", "1", stderr=asyncio.subprocess.PIPE
    )
    await forwarder.until(lambda: "rib/register" in forwarder.command_names)
    (tmp_path / "file").write_bytes(bytes(2 << 20))
    forwarder.send(encode_interest("/q/v=1/seg=300"))
    assert parse_lp_packet(await forwarder.received.get()).nack_reason is not None
    _, errors = await of_file.communicate()
    assert of_file.returncode == 1
    assert "changed while it was published" in errors.decode()


def test_an_anchor_that_is_neither_file_nor_name_is_reported_missing(tmp_path):
    for anchor in ("nofile", str(tmp_path / "nofile.ndncert")[1:]):
        result = CliRunner().invoke(app, ["fetch", "/x", "--anchor", anchor])
        assert result.exit_code == 1
        assert f"{anchor}: there is no such file" in result.stderr


async def test_a_producers_key_signs_its_registration(forwarder, tmp_path):
    store = {"INNET_KEY_STORE": str(tmp_path / "keys")}
    assert CliRunner(env=store).invoke(app, ["keys", "new", "/op"]).exit_code == 0
    (tmp_path / "photo").write_bytes(b"photo")
    forwarder.commands = lambda interest: control_response(interest, 403, "no")
    for command in (
        ("publish", "/op/photo", str(tmp_path / "photo"), "--key", "/op"),
        ("ping", "/op", "--serve", "--key", "/op"),
    ):
        result = await innet(forwarder, *command, **store)
        assert "403" in result.output
        assert forwarder.command_names == ["rib/register"]
        (asked,) = forwarder.interests
        assert asked.key_name is not None
        assert Name("/op/KEY").is_prefix_of(Name(str(asked.key_name)))
        forwarder.interests.clear()
    unused = await innet(forwarder, "ping", "/op", "--key", "/op", **store)
    assert "goes with --serve" in unused.output


def test_without_a_forwarder_the_command_says_what_to_start(tmp_path):
    runner = CliRunner(env={"INNET_NDN": f"unix://{tmp_path}/none"})
    result = runner.invoke(app, ["peek", "/a"])
    assert result.exit_code != 0
    assert "innet forwarder" in str(result.exception) + result.output
