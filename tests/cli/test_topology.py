"""``innet topology``: shows, checks and converts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from innet.cli.main import app
from innet.topology import json_schema, load_topology, parse_yaml, shipped_topologies


def test_list_names_every_shipped_topology(cli: CliRunner) -> None:
    output = cli.invoke(app, ["topology", "list"]).output
    for name in shipped_topologies():
        assert name in output
    assert "leaf-spine:" in output


@pytest.mark.parametrize("extension", ["svg", "png"])
def test_show_prints_and_draws(cli: CliRunner, tmp_path: Path, extension: str) -> None:
    picture = tmp_path / f"star.{extension}"
    result = cli.invoke(app, ["topology", "show", "star4", "--picture", str(picture)])
    assert result.exit_code == 0
    assert "4 hosts, 1 switch" in result.output
    assert str(picture) in result.output
    assert picture.stat().st_size > 1000


@pytest.mark.parametrize("arguments", [["star4", "--picture"], ["--picture", "--", "star4"]])
def test_a_picture_without_a_file_name_gets_one(
    cli: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    result = cli.invoke(app, ["topology", "show", *arguments])
    assert result.exit_code == 0
    (picture,) = tmp_path.iterdir()
    assert f"picture: {picture.name}" in result.output
    assert picture.read_bytes().startswith(b"<?xml")


@pytest.mark.parametrize("command", [["validate"], ["show"], ["export"]])
def test_a_directory_is_refused_with_an_explanation(
    cli: CliRunner, tmp_path: Path, command: list[str]
) -> None:
    result = cli.invoke(app, ["topology", *command, str(tmp_path)])
    assert result.exit_code == 1
    assert f"{tmp_path}: is a directory; expected one of its files (.yaml" in result.stderr


def test_an_export_can_be_loaded(cli: CliRunner) -> None:
    result = cli.invoke(app, ["topology", "export", "leaf-spine:2x2x2"])
    assert parse_yaml(result.output) == load_topology("leaf-spine:2x2x2")


def test_schema_is_that_of_the_models(cli: CliRunner) -> None:
    assert json.loads(cli.invoke(app, ["topology", "schema"]).output) == json_schema()


def test_validate_counts_the_parts_of_a_valid_file(cli: CliRunner, tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(cli.invoke(app, ["topology", "export", "star4"]).output)
    result = cli.invoke(app, ["topology", "validate", str(file)])
    assert (result.exit_code, result.output) == (0, f"{file}: 4 hosts, 1 switch, 4 links\n")


def test_validate_takes_shipped_names_and_generators(cli: CliRunner) -> None:
    for name in ("star4", "star:4"):
        result = cli.invoke(app, ["topology", "validate", name])
        assert (result.exit_code, result.output) == (0, f"{name}: 4 hosts, 1 switch, 4 links\n")


def test_a_picture_of_an_unknown_format_is_refused_before_anything_is_printed(
    cli: CliRunner,
) -> None:
    result = cli.invoke(app, ["topology", "show", "star4", "--picture", "star.xyz"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "expected a picture of type .svg, .png, .pdf" in result.stderr


def test_validate_names_the_line_of_a_mistake(cli: CliRunner, tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    text = cli.invoke(app, ["topology", "export", "star4"]).output
    lines = text.replace("kind: switch", "kind: swich").splitlines()
    file.write_text("\n".join(lines))
    line = next(number for number, content in enumerate(lines, 1) if "swich" in content)
    result = cli.invoke(app, ["topology", "validate", str(file)])
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: {file}:{line}: ")
    assert result.stdout == ""


def test_validate_names_missing_topologies(cli: CliRunner) -> None:
    result = cli.invoke(app, ["topology", "validate", "nosuch.yaml"])
    assert result.exit_code == 1
    assert "no topology file 'nosuch.yaml'" in result.stderr
