"""``innet kv locate``: where a prompt's prefix is, from members that publish events."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from typer.testing import CliRunner

import innet
from innet.cli.kv_lookups import _streams_in, _tenant_in
from innet.cli.main import app
from innet.errors import KVError
from innet.kv.pool_options import MemberOptions
from tests.kv.fake_network import FakeFabric
from tests.kv.test_kv_pool import KV, MODEL, TOKENS


@pytest.fixture(scope="module")
def stream() -> Iterator[str]:
    """A member with two blocks of a prompt of five tokens."""
    fabric = FakeFabric({"h0": 1 << 20})
    options = MemberOptions.of({"events": "tcp://127.0.0.1:0", "model_name": "llama"})
    with fabric.member("h0", options) as member:
        pool = innet.KVPool(MODEL, block_tokens=2, member=member)
        assert pool.blocking.put(TOKENS, KV) == 4
        salted = innet.KVPool(MODEL, block_tokens=2, salt="pepper", member=member)
        assert salted.blocking.put([*TOKENS[:2], 9, 9, 9], KV) == 4
        assert member.event_endpoints is not None
        yield f"h0={member.event_endpoints.events},{member.event_endpoints.replay}"


def located(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["kv", "locate", *arguments])
    assert not result.exception, result.output
    return result.output


def test_a_prefix_is_located(stream: str) -> None:
    answer = json.loads(located("--stream", stream, "--tokens", "1,2,3,4,5", "--json"))
    [holding] = answer["holdings"]
    assert (answer["tokens"], holding["member"], holding["memory_tokens"]) == (4, "h0", 4)
    shown = located("--stream", stream, "--tokens", "1,2,9,9")
    assert "2 of 4 tokens of llama are in the pool, in blocks of 2" in shown
    assert "h0" in shown


def test_prompts_with_a_salt_and_of_an_adapter_are_others(stream: str) -> None:
    for tokens, options, found in (
        ("1,2,3,4", (), 4),
        ("1,2,9,9", (), 2),
        ("1,2,9,9", ("--salt", "pepper", "--model", "llama"), 4),
        ("1,2,9,9", ("--salt", "salt"), 0),
        ("1,2,9,9", ("--salt", "pepper", "--lora", "sql"), 0),
    ):
        answer = json.loads(located("--stream", stream, "--tokens", tokens, "--json", *options))
        assert answer["tokens"] == found, options


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--stream", "h0=tcp://127.0.0.1:1"], "give either --tokens or --tokens-file"),
        (["--stream", "h0", "--tokens", "1"], "expected NAME=ADDRESS"),
        (["--stream", "h0=tcp://127.0.0.1:1", "--tokens", "1,x"], "expected token ids"),
        (["--stream", "h0=tcp://127.0.0.1:1", "--tokens", "-1"], "from 0 to 2^32 - 1"),
        (["--stream", "h0=tcp://127.0.0.1:1", "--tokens", ""], "expected token ids"),
        (["--stream", "h0=tcp://127.0.0.1:1", "--tokens", "1", "--near", "h0"], "distances are"),
        (["--tokens-file", "missing.json"], "cannot be read"),
        (["--tokens-file", sys.executable], "expected token ids"),
        (["--stream", "h0=x", "--on", "lab", "--tokens", "1"], "give either --on or --stream"),
    ],
)
def test_wrong_options_are_explained(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["kv", "locate", *arguments])
    assert result.exit_code == 2
    assert message in result.output.replace("\n", " ")


def test_an_unpublished_stream_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("innet.kv.events.follower.REPLAY_S", 0.01)
    arguments = ["kv", "locate", "--stream", "h0=tcp://127.0.0.1:1", "--tokens", "1"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert "no events were replayed from h0" in result.output


def listener(path: Path) -> socket.socket:
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()
    return server


def test_a_tenant_is_chosen_by_its_first_digits_or_all_of_them(tmp_path: Path) -> None:
    with ExitStack() as stack:
        for member in ("h0.0.2facdf8e", "h0.0.ad2fd309", "h1.0.ad2fd309"):
            stack.enter_context(listener(tmp_path / f"{member}.kv-events"))
        listener(tmp_path / "h2.0.ad2fd309.kv-events").close()  # its process has died
        for chosen in ("ad", "ad2fd309", "ad2fd3098c65ea8fd390ffbca4057d88"):
            digits = _tenant_in(tmp_path, chosen)
            assert [each.name for each in _streams_in(tmp_path, digits)] == ["h0.0", "h1.0"]
        for wrong in (None, "", "acme", "2facdf8f"):
            with pytest.raises(KVError, match="with --tenant, of 2facdf8e, ad2fd309"):
                _tenant_in(tmp_path, wrong)
    with pytest.raises(KVError, match="no member publishes events"):
        _tenant_in(tmp_path, None)


def test_a_tenant_is_chosen_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tenants = {"2facdf8e01": "umbra", "ad2fd30902": "acme"}
    monkeypatch.setattr("innet.cli.kv_lookups._tenant_names", lambda _: tenants)
    with ExitStack() as stack:
        for digits in tenants:
            stack.enter_context(listener(tmp_path / f"h0.0.{digits[:8]}.kv-events"))
        assert _tenant_in(tmp_path, "acme") == "ad2fd309"
        listed = r"with --tenant, of acme \(ad2fd309\), umbra \(2facdf8e\)"
        with pytest.raises(KVError, match=listed):
            _tenant_in(tmp_path, None)
