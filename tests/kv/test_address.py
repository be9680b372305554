"""Addresses of standing pools: the network that each means, and what is said when there is none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from innet.cluster.emulation.runs import create_run, machine_run_id, remove_run
from innet.cluster.machines.launcher_identity import LauncherIdentity
from innet.cluster.machines.token_file import TokenFile
from innet.errors import HostTaken, InnetError, KVError
from innet.kv import address
from innet.kv.address import network_at, network_use
from innet.kv.pool_options import MemberOptions, PoolOptions


@pytest.fixture
def token_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Of a network that this machine has joined as h1."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    path = tmp_path / "token"
    LauncherIdentity.made("prod", ["h1"]).token_file(["10.0.0.1:4711"]).save(path)
    record = create_run(machine_run_id("prod", "h1"), "rack", "cluster", part_of="prod")
    yield path
    remove_run(record)


def test_a_name_or_a_token_file_selects_the_network_of_this_machine(token_file: Path) -> None:
    assert network_at("prod") == network_at("10.0.0.1:4711", token_file) == "prod"


def test_a_machine_that_has_not_joined_is_refused_with_the_command_to_join(
    token_file: Path,
) -> None:
    other = token_file.with_name("other")
    TokenFile.load(token_file).model_copy(update={"network": "lab"}).save(other)
    joining = rf"innet node join 10.0.0.9:1 --token-file {other}"
    with pytest.raises(KVError, match=rf"no node of network lab .*networks here: prod.*{joining}"):
        network_at("10.0.0.9:1", other)
    with pytest.raises(KVError, match=r"innet kv serve FILE --name lab"):
        network_at("lab")
    with pytest.raises(KVError, match="give token_file="):
        network_at("10.0.0.1:4711")
    with pytest.raises(InnetError, match="cannot read the token file"):
        network_at("10.0.0.1:4711", other.with_name("none"))


def test_a_process_at_an_address_offers_no_memory_by_default() -> None:
    secret = bytes(32)
    options = MemberOptions.of({"address": "prod", "secret": secret})
    assert options.offered_memory_bytes == 0
    given = MemberOptions.of({"address": "prod", "secret": secret, "offered_memory": 5})
    assert given.offered_memory_bytes == 5


def test_a_process_uses_the_replicas_of_the_members_by_default() -> None:
    def counted(given: PoolOptions, members: int | None) -> int:
        return MemberOptions.of(given).with_replicas(members).settings.replicas

    assert (counted({}, 2), counted({}, None)) == (2, 1)
    assert (counted({"replicas": 1}, 2), counted({"replicas": 3}, None)) == (1, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"address": "prod"}, "give secret="),
        ({"token_file": "prod.token"}, "give address="),
    ],
)
def test_options_that_need_another_are_refused(options: PoolOptions, message: str) -> None:
    with pytest.raises(KVError, match=message):
        MemberOptions.of(options)


def test_members_of_a_process_share_its_attachment(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def attach(network: str, **_: object) -> None:
        if network == "full":
            raise HostTaken("no worker is free")
        calls.append(f"attach {network}")

    monkeypatch.setattr(address, "attach", attach)
    monkeypatch.setattr(address, "detach", lambda: calls.append("detach"))
    with pytest.raises(HostTaken, match="no worker is free"):
        network_use.enter("full")
    for _ in range(2):
        network_use.enter("prod")
    with pytest.raises(HostTaken, match="attached to prod, and cannot be to lab"):
        network_use.enter("lab")
    network_use.leave()
    assert calls == ["attach prod"]
    network_use.leave()
    network_use.enter("lab")
    network_use.leave()
    assert calls == ["attach prod", "detach", "attach lab", "detach"]


def test_an_unexpected_error_delays_the_return_to_the_network_and_does_not_prevent_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failures: list[Exception] = [FileNotFoundError("the run's settings"), RuntimeError("no face")]
    calls: list[str] = []

    class Worker:
        def close(self) -> None:
            calls.append("closed")

    class Member:
        def on_network_lost(self) -> None:
            calls.append("lost")

        def on_network_back(self) -> None:
            calls.append("back")
            if calls.count("back") == 1:
                raise OSError("a folder is missing")

    def rejoin(*_: object) -> Worker:
        if failures:
            raise failures.pop()
        return Worker()

    monkeypatch.setattr(address, "_PAUSE_S", 0.0)
    monkeypatch.setattr(address, "attach", lambda *_, **_options: None)
    monkeypatch.setattr(address, "reattach", rejoin)
    attachment = address.LastingAttachment("prod")
    attachment.watch(Member())
    attachment._on_lost()
    assert calls == ["lost", "back", "back", "closed"]


def test_a_member_that_is_closed_while_the_network_comes_back_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []

    class Worker:
        def close(self) -> None:
            calls.append("the worker of before ends")

    class Closing:
        """Is closed while the network is lost."""

        def on_network_lost(self) -> None:
            pass

        def on_network_back(self) -> None:
            calls.append("back")
            if len(calls) == 1:
                attachment.unwatch(self)
            if len(calls) > 3:
                attachment.close()
            raise KVError("it is closed")

    monkeypatch.setattr(address, "_PAUSE_S", 0.0)
    monkeypatch.setattr(address, "attach", lambda *_, **_options: None)
    monkeypatch.setattr(address, "detach", lambda: None)
    monkeypatch.setattr(address, "reattach", lambda *_: Worker())
    attachment = address.LastingAttachment("prod")
    attachment.watch(Closing())
    attachment._on_lost()
    assert calls == ["back", "the worker of before ends"]
