"""``innet settings``: what can be set, to what it is set, and answers to wrong names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from innet.cli.main import app
from innet.cluster.emulation.runs import create_run, remove_run
from innet.settings import SETTINGS_NAME, Settings, SettingsError

NAMES = [
    f"{section}.{name}" for section, fields in Settings().model_dump().items() for name in fields
]


def listed(cli: CliRunner, *arguments: str, **environment: str) -> dict[str, dict[str, str]]:
    result = cli.invoke(app, ["settings", *arguments, "--json"], env=environment)
    assert result.exit_code == 0, result.output
    return {setting["name"]: setting for setting in json.loads(result.stdout)}


def test_every_setting_has_its_type_default_value_and_description(cli: CliRunner) -> None:
    found = listed(cli)
    assert list(found) == NAMES
    for setting in found.values():
        assert setting["takes"]
        assert setting["description"]
        assert setting["value"] == setting["default"]
        assert setting["origin"] == "default"
    text = cli.invoke(app, ["settings"]).stdout
    assert all(f"{name} = " in text for name in NAMES)
    assert max(map(len, text.splitlines())) <= 80


def test_values_are_shown_with_their_source(cli: CliRunner) -> None:
    options = ["--set", "collectives.timeout_s=5min", "--set", "transport.socket_buffer_bytes=8MiB"]
    found = listed(cli, *options, INNET_BROKER="mqtt://ann:hunter2@host")
    assert found["collectives.timeout_s"]["value"] == "300"
    assert found["collectives.timeout_s"]["origin"] == "option (--set)"
    assert found["transport.socket_buffer_bytes"]["value"] == "8MiB"
    assert found["telemetry.broker"]["origin"] == "environment (INNET_BROKER)"
    assert "hunter2" not in str(found)
    assert found["log.level"]["origin"] == "default"


def test_the_settings_of_a_run_come_from_its_file(cli: CliRunner, registry: Path) -> None:
    record = create_run("lab", "star-2", "local")
    run_dir = record.run_dir
    settings = Settings().with_assignments(["log.level=debug"])
    (run_dir / SETTINGS_NAME).write_text(settings.model_dump_json())
    found = listed(cli, "--on", "lab", "log")
    remove_run(record)
    assert found["log.level"]["value"] == "debug"
    assert found["log.level"]["origin"] == f"file ({run_dir / SETTINGS_NAME})"
    assert found["log.format"]["origin"] == "default"


def test_a_prefix_selects_settings(cli: CliRunner) -> None:
    assert set(listed(cli, "log")) == {"log.format", "log.level"}
    result = cli.invoke(app, ["settings", "colectives"])
    assert result.exit_code == 1
    assert "no setting begins with 'colectives'; did you mean 'collectives'?" in result.stderr


@pytest.mark.parametrize(
    ("assignment", "answer"),
    [
        ("collectives.timeout=1", "did you mean 'collectives.timeout_s'?"),
        ("timeout_s=1", "did you mean 'collectives.timeout_s'?"),
        ("transport.max_windw=9", "did you mean 'transport.max_window'?"),
        ("nonsense=1", "there is no setting 'nonsense'; `innet settings` lists all"),
        ("log.level", "log.level has no value; write log.level=VALUE"),
        (
            "collectives.timeout_s=soon",
            "collectives.timeout_s: expected seconds, such as 1.5",
        ),
        ("transport.socket_buffer_bytes=many", "transport.socket_buffer_bytes: expected a size"),
    ],
)
def test_a_wrong_assignment_is_refused_with_a_suggestion(assignment: str, answer: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        Settings().with_assignments([assignment])
    assert answer in str(refusal.value)
    assert len(str(refusal.value)) < 200


def test_optional_settings_can_be_set_to_none() -> None:
    settings = Settings().with_assignments(["telemetry.broker_port=5"])
    assert settings.with_assignments(["telemetry.broker_port=none"]) == Settings()


def test_listed_defaults_can_be_assigned(cli: CliRunner) -> None:
    for name, setting in listed(cli).items():
        if setting["default"] != "(none)":
            assert Settings().with_assignments([f"{name}={setting['default']}"]) == Settings()
