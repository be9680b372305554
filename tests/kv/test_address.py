"""Addresses of standing pools: the network that each means, and what is said when there is none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from innet.cluster.emulation.runs import create_run, machine_run_id, remove_run
from innet.cluster.machines.launcher_identity import LauncherIdentity
from innet.cluster.machines.token_file import TokenFile
from innet.errors import EmulationError, HostTaken, InnetError, KVError
from innet.kv import address
from innet.kv.address import network_at, network_use, require_network
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
        require_network(network_at("10.0.0.9:1", other), "10.0.0.9:1", other)
    with pytest.raises(KVError, match=r"innet kv serve FILE --name lab"):
        require_network(network_at("lab"), "lab")
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


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """What attaching raises, in turn, before it succeeds."""
    failures: list[Exception] = []

    def attach(*_: object, **_options: object) -> None:
        if failures:
            raise failures.pop(0)

    monkeypatch.setattr(address, "_PAUSE_S", 0.0)
    monkeypatch.setattr(address, "attach", attach)
    monkeypatch.setattr(address, "detach", lambda: None)
    monkeypatch.setattr(address, "_in_background", lambda work: work())
    return failures


class Joining:
    """A member that joins at the second attempt."""

    def __init__(self) -> None:
        self.attempts = 0

    def on_network_lost(self) -> None:
        raise AssertionError("it was not joined")

    def on_network_back(self) -> None:
        self.attempts += 1
        if self.attempts == 1:
            raise KVError("the pool has no tenant acme with this secret")


def test_a_process_attaches_when_the_network_is_up_and_logs_each_reason_once(
    waiting: list[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    waiting += [EmulationError("there is no run prod"), *[EmulationError("no launcher")] * 5]
    attachment = address.LastingAttachment("prod", waits=True)
    assert attachment.is_attached
    member = Joining()
    attachment.watch(member, has_joined=False)
    assert member.attempts == 2
    said = [re.sub(r"for [\d.]+ .?s:", "for a while:", r.getMessage()) for r in caplog.records]
    assert said == [
        "network prod is not up: there is no run prod. This process starts without its pool, in "
        "which it finds no blocks, and joins it when it is up",
        "cannot join network prod yet, tried for a while: no launcher",
        "this process has joined network prod",
        "cannot join a pool of prod yet, tried for a while: the pool has no tenant acme with this "
        "secret",
        "this process has joined network prod",
    ]


@pytest.mark.parametrize(
    ("error", "waits"),
    [
        (EmulationError("there is no run prod"), False),
        (HostTaken("all workers of prod are taken"), True),
    ],
)
def test_what_waiting_does_not_mend_is_an_error(
    waiting: list[Exception], error: Exception, waits: bool
) -> None:
    waiting.append(error)
    with pytest.raises(type(error)):
        address.LastingAttachment("prod", waits=waits)


def test_a_reason_that_stays_is_logged_ever_more_rarely(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now_s = 0.0
    monkeypatch.setattr("innet.kv.address.time.monotonic", lambda: now_s)
    reminder = address.Reminder("cannot join")
    logged = []
    for now_s in range(0, 24 * 3600, 10):
        before = len(caplog.records)
        reminder.failed(KVError("no tenant"))
        if len(caplog.records) > before:
            logged.append(now_s)
    assert logged[:5] == [0, 60, 180, 420, 900]
    assert logged[-1] - logged[-2] == 3600
