"""``innet keys``: a person makes, certifies, carries and revokes keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from innet.cli.main import app


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INNET_KEY_STORE", str(tmp_path / "keys"))
    return tmp_path / "keys"


def run(cli: CliRunner, *words: str) -> str:
    result = cli.invoke(app, ["keys", *words])
    assert result.exit_code == 0, result.output
    return result.stdout


def listed(cli: CliRunner) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(run(cli, "list", "--json"))
    return found


def test_a_site_certifies_and_revokes_a_key_of_another_machine(
    cli: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(cli, "new", "/site/alice", "--id", "1")
    run(cli, "export", "/site/alice", "-o", str(tmp_path / "request"))
    alice = tmp_path / "keys"
    monkeypatch.setenv("INNET_KEY_STORE", str(tmp_path / "other"))
    run(cli, "new", "/site", "--id", "root", "--type", "ecdsa")
    issued = tmp_path / "alice.cert"
    run(
        cli, "issue", "--request", str(tmp_path / "request"), "--issuer", "/site", "-o", str(issued)
    )
    revoked = tmp_path / "alice.revoked"
    run(cli, "revoke", "/site/alice", "--by", "/site", "--reason", "lost", "-o", str(revoked))
    monkeypatch.setenv("INNET_KEY_STORE", str(alice))
    run(cli, "import", str(issued))
    [key] = listed(cli)
    assert [key["key"], key["private"]] == ["/site/alice/KEY/1", True]
    states = [c["state"] for c in key["certificates"]]  # type: ignore[attr-defined]
    assert all(state.startswith("valid until") for state in states)
    run(cli, "import", str(revoked))
    [key] = listed(cli)
    assert key["certificates"][0]["state"] == "revoked: lost"  # type: ignore[index]


def test_a_private_key_is_exported_encrypted(
    cli: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passphrase, bag = tmp_path / "passphrase", tmp_path / "bag"
    passphrase.write_text("correct horse\n")
    options = ("--passphrase-file", str(passphrase))
    run(cli, "new", "/alice", "--id", "1")
    run(cli, "export", "/alice", "--private", "-o", str(bag), *options)
    monkeypatch.setenv("INNET_KEY_STORE", str(tmp_path / "other"))
    result = cli.invoke(app, ["keys", "import", str(bag)])
    assert (result.exit_code, "--passphrase-file" in result.stderr) == (1, True)
    run(cli, "import", str(bag), "--encrypt", *options)
    [key] = listed(cli)
    assert [key["private"], key["encrypted"]] == [True, True]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["new", "alice"], "a name begins with a slash"),
        (["issue", "/alice", "--issuer", "/site"], "is not there"),
        (["export", "/alice"], "is not there"),
        (["import", "missing"], "cannot read missing"),
    ],
)
def test_impossible_requests_are_refused_in_a_sentence(
    cli: CliRunner, words: list[str], said: str
) -> None:
    result = cli.invoke(app, ["keys", *words])
    assert (result.exit_code, said in result.stderr) == (1, True), result.output


def test_issuing_needs_a_key_and_an_issuer(cli: CliRunner) -> None:
    for words in (["issue", "/alice"], ["issue", "--issuer", "/site"]):
        assert cli.invoke(app, ["keys", *words]).exit_code == 2
