"""Paths in options begin with ``~`` where shells leave it: that is the home directory."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from innet.cli.main import app
from innet.kv.pool_options import MemberOptions
from innet.topology import load_topology


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "me").mkdir()
    return tmp_path / "me"


def test_options_of_commands(home: Path) -> None:
    (home / "prompt.json").write_text("[]")
    found = CliRunner().invoke(app, ["kv", "locate", "--tokens-file=~/prompt.json"])
    assert found.exit_code == 2
    assert "expected token ids" in found.output  # the file was read
    missing = CliRunner().invoke(app, ["kv", "locate", "--tokens-file=~no-such-user/prompt.json"])
    assert missing.exit_code == 2
    assert "is not known" in " ".join(missing.output.split())


def test_topologies(home: Path) -> None:
    (home / "two.yaml").write_text(
        "name: two\ntopology: {nodes: {a: {kind: host}, b: {kind: host}}, "
        "links: [{endpoints: ['a:e', 'b:e']}]}"
    )
    assert load_topology("~/two.yaml").name == "two"


def test_options_of_pools(home: Path) -> None:
    options = MemberOptions.of(
        {"secret": "~/acme.secret", "folder": Path("~/blocks"), "disk": "1GiB"}
    )
    assert (options.secret, options.folder) == (home / "acme.secret", home / "blocks")
    assert MemberOptions.of({"folder": "file:///~/x", "disk": "1GiB"}).folder == "file:///~/x"
