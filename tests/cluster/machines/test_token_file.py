"""Token files and keys: written for their owner alone, read back, refused when they are wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.cluster.machines.agent_key import AgentKey, KeyPair, key_path, new_key_file
from innet.cluster.machines.launcher_identity import LauncherIdentity
from innet.cluster.machines.token_file import TokenFile
from innet.errors import SecurityError
from innet.private_files import write_private
from innet.topology.names import NAME_PATTERN

names = st.from_regex(NAME_PATTERN.replace("$", r"\Z"))


def made(*machines: str) -> TokenFile:
    return LauncherIdentity.made("prod", machines or ("h1", "h2")).token_file(["10.0.0.1:4711"])


@given(st.lists(names, min_size=1, unique=True), names)
def test_a_token_file_round_trips(tmp_path_factory, machines: list[str], network: str) -> None:
    path = tmp_path_factory.mktemp("tokens") / "token"
    token = made(*machines).model_copy(update={"network": network})
    token.save(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert TokenFile.load(path) == token


def test_a_token_file_holds_a_thousand_machines(tmp_path: Path) -> None:
    token = made(*(f"machine-with-a-long-name-{number:04}" for number in range(4096)))
    token.save(tmp_path / "token")
    assert TokenFile.load(tmp_path / "token") == token


def test_a_file_for_one_machine_and_its_new_key_let_only_it_join(tmp_path: Path) -> None:
    whole = made("h1", "h2")
    path = tmp_path / "token"
    whole.only_for("h2").save(path)
    assert TokenFile.load(path).machines == {"h2": whole.secret_of("h2")}
    write_private(key_path(path, "h2"), new_key_file("h2"))
    with AgentKey.opened(path, "h2") as key:
        assert key.pair.public_key in key_path(path, "h2").read_text()


def test_each_machine_has_its_own_secret() -> None:
    secrets = made(*(f"h{number}" for number in range(100))).machines
    assert len(set(secrets.values())) == 100
    assert min(len(secret) for secret in secrets.values()) >= 22  # 128 bits in base64
    assert "h0" not in repr(made("h0"))


@given(st.binary(max_size=300))
def test_malformed_token_files_are_refused(tmp_path_factory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("tokens") / "token"
    write_private(path, "")
    path.write_bytes(content)
    with pytest.raises(SecurityError, match=r"is no token file: .* `innet up --listen` writes one"):
        TokenFile.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "token file of format 2, expected 1: another version"),
        ({"format": "x"}, "token file of format 'x', expected 1"),
        ({"network": "a/b"}, "network: expected a name of 1 to 32 characters"),
        ({"public_key": "short"}, "public_key: "),
        ({"machines": {}}, "machines: "),
        ({"machines": {"../h1": "x" * 22}}, "machines"),
        ({"machines": {"h1": ""}}, "machines.h1"),
        ({"more": 1}, "more"),
    ],
)
def test_a_wrong_value_is_named(tmp_path: Path, change: dict[str, object], message: str) -> None:
    path = tmp_path / "token"
    write_private(path, json.dumps(json.loads(made().model_dump_json()) | change))
    with pytest.raises(SecurityError, match=message) as error:
        TokenFile.load(path)
    assert str(path) in str(error.value)


def test_error_messages_contain_no_secret(tmp_path: Path) -> None:
    path, token = tmp_path / "token", made("h1")
    document = json.loads(token.model_dump_json())
    write_private(path, json.dumps(document | {"machines": {"h1": [token.machines["h1"]]}}))
    with pytest.raises(SecurityError) as error:
        TokenFile.load(path)
    assert token.machines["h1"] not in str(error.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_token_file_readable_by_others_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "token"
    made().save(path)
    path.chmod(mode)
    with pytest.raises(SecurityError, match="chmod 600"):
        TokenFile.load(path)


def test_a_missing_file_and_a_read_only_folder_are_reported(tmp_path: Path) -> None:
    with pytest.raises(SecurityError, match=r"No such file.*copy it to this machine"):
        TokenFile.load(tmp_path / "none")
    with pytest.raises(SecurityError, match="--token-file"):
        made().save(tmp_path / "none" / "token")


def test_files_of_running_networks_and_other_files_are_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "token"
    first, second = made(), made()
    first.save_new(path, live=[])
    with pytest.raises(SecurityError, match=r"of network .* which is up"):
        second.save_new(path, live=[first.network])
    second.save_new(path, live=["another"])
    first.remove(path)
    assert TokenFile.load(path) == second
    second.remove(path)
    assert not path.exists()
    write_private(path, "a letter")
    with pytest.raises(SecurityError, match="not replaced"):
        second.save_new(path, live=[])
    assert path.read_text() == "a letter"


# Keys of machines


def test_a_key_is_saved_privately_and_found_again(tmp_path: Path) -> None:
    token = tmp_path / "token"
    with AgentKey.opened(token, "h1") as key:
        key.keep_for("h1")
        pair = key.pair
    path = key_path(token, "h1")
    assert path.name == "token.h1.key"
    assert path.stat().st_mode & 0o777 == 0o600
    assert pair.secret_key not in repr(pair)
    for name in ("h1", None):  # without a name, this host is what it was before
        with AgentKey.opened(token, name) as again:
            assert (again.pair, again.machine) == (pair, "h1")


def test_a_key_is_locked_by_one_agent(tmp_path: Path) -> None:
    token = tmp_path / "token"
    with AgentKey.opened(token, "h1") as key:
        with pytest.raises(SecurityError, match="another agent on this host is machine h1"):
            AgentKey.opened(token, "h1")
        with AgentKey.opened(token, None) as unnamed:
            assert unnamed.machine is None
            assert unnamed.pair != key.pair
            with pytest.raises(SecurityError, match="another agent on this host is machine h1"):
                unnamed.keep_for("h1")
            unnamed.keep_for("h2")
    with AgentKey.opened(token, "h1") as again:
        assert again.pair == key.pair
    with AgentKey.opened(token, "h2") as again:
        assert again.pair == unnamed.pair


@pytest.mark.parametrize("name", ["h1", None])
def test_an_agent_that_ends_before_its_join_is_confirmed_finds_its_key_again(
    tmp_path: Path, name: str | None
) -> None:
    with AgentKey.opened(tmp_path / "token", name) as key:
        pass
    with AgentKey.opened(tmp_path / "token", name) as again:
        assert again.pair == key.pair
        again.keep_for("h1")
    assert [path.name for path in tmp_path.iterdir()] == ["token.h1.key"]


def test_a_key_that_the_launcher_never_accepted_is_deleted(tmp_path: Path) -> None:
    with AgentKey.opened(tmp_path / "token", "h1") as key:
        key.forget()
    assert list(tmp_path.iterdir()) == []
    with AgentKey.opened(tmp_path / "token", "h1") as key:
        key.keep_for("h1")
        key.forget()
    assert key_path(tmp_path / "token", "h1").exists()


def test_an_unnamed_machine_does_not_use_the_key_of_another_host(
    tmp_path: Path, monkeypatch
) -> None:
    token = tmp_path / "token"
    with AgentKey.opened(token, "h1") as key:
        key.keep_for("h1")
    monkeypatch.setattr("socket.gethostname", lambda: "another-host")
    with AgentKey.opened(token, None) as unnamed:
        assert unnamed.machine is None


def test_a_key_that_another_host_writes_does_not_block_unnamed_machines(
    tmp_path: Path,
) -> None:
    token = tmp_path / "token"
    write_private(key_path(token, "h1"), "")
    with AgentKey.opened(token, "h2") as key:
        key.keep_for("h2")
        pair = key.pair
    with AgentKey.opened(token, None) as again:
        assert (again.pair, again.machine) == (pair, "h2")


def test_a_malformed_or_readable_key_file_is_refused(tmp_path: Path) -> None:
    path = key_path(tmp_path / "token", "h1")
    write_private(path, "{}")
    with pytest.raises(SecurityError, match=r"token.h1.key holds no key: .*Remove"):
        AgentKey.opened(tmp_path / "token", "h1")
    path.chmod(0o644)
    with pytest.raises(SecurityError, match="chmod 600"):
        AgentKey.opened(tmp_path / "token", "h1")


def test_a_symbolic_link_as_key_file_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    key_path(tmp_path / "token", "h1").symlink_to(target)
    with pytest.raises(SecurityError, match="cannot keep the key of a machine"):
        AgentKey.opened(tmp_path / "token", "h1")
    assert not target.exists()


def test_generated_key_pairs_differ() -> None:
    assert KeyPair.made() != KeyPair.made()
