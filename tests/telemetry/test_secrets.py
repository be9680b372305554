"""Passwords and keys are in no command line and in no message."""

from __future__ import annotations

import asyncio
import importlib
import json
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

import innet as innet_package
from innet.cli.network_choice import typed_broker
from innet.cluster.launch import Session
from innet.cluster.session_client import JobRequest
from innet.errors import SecurityError, TelemetryError
from innet.security.keys import OPERATOR_KEY_NAME, Key, NodeKeys
from innet.settings import Settings, SettingsError
from innet.telemetry.broker_url import BrokerUrl
from innet.telemetry.embedded_broker import PASSWORD_NAME
from innet.topology import load_topology
from tests.cli.runs import command_lines, invoked

SECRET = "hunter2"
URL = f"mqtt://ann:{SECRET}@broker.example"
WAITS = (
    "import innet, threading; innet.init(); print('joined', flush=True); threading.Event().wait()"
)


def secrets_of(run_dir: Path) -> set[str]:
    """The secrets in the private files of a run: passwords, and keys in hexadecimal."""
    found = {(run_dir / OPERATOR_KEY_NAME).read_text()}
    found |= {path.read_text() for path in run_dir.glob(PASSWORD_NAME)}
    for path in run_dir.glob("*.keys"):
        keys = json.loads(path.read_text())
        found |= {keys["signing"]["secret"], keys["objects"]["secret"], keys["pool_secret"] or ""}
    return found - {""}


async def test_no_process_of_a_run_has_a_secret_in_its_command_line() -> None:
    joined = asyncio.Semaphore(0)
    settings = Settings().with_assignments(["telemetry.broker_port=0"])
    async with Session(
        load_topology("star:2"), settings=settings, output=lambda *_: joined.release()
    ) as run:
        job = asyncio.ensure_future(run.run_workers([sys.executable, "-c", WAITS]))
        await joined.acquire()
        secrets = secrets_of(run.network.run_dir)
        lines = command_lines()
        job.cancel()
        await asyncio.gather(job, return_exceptions=True)
    assert len(secrets) >= 5
    assert "innet.node" in lines
    assert [secret for secret in secrets if secret in lines] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["up", "star:2", "--broker", URL],
        ["up", "star:2", "--set", f"telemetry.broker={URL}"],
        ["run", "star:2", "--broker", URL, "--", "true"],
        ["watch", "lab", "--broker", URL],
    ],
)
def test_a_password_in_a_command_line_is_refused_with_alternatives(arguments: list[str]) -> None:
    done = invoked(*arguments)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode != 0
    assert "--broker file:PATH" in said
    assert "INNET_BROKER" in said
    assert SECRET not in said


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "broker.url"
    file.write_text(URL)
    file.chmod(0o640)
    with pytest.raises(SecurityError, match="chmod 600"):
        typed_broker(f"file:{file}")
    file.chmod(0o600)
    assert typed_broker(f"file:{file}") == URL


@pytest.mark.parametrize(
    "text",
    [
        f"mqtt://ann:{SECRET}/x@host",
        f"mqtt://ann:x/{SECRET}@host:port",
        f"mqtt://ann:{SECRET}@[host",
        f"mqtt://ann:{SECRET}\u2100@host",
        f"mqtt://ann:{SECRET}@host:99999",
        f"mqtt://ann:{SECRET}#@host",
        f"http://ann:{SECRET}@host",
    ],
)
def test_errors_about_malformed_urls_hide_the_password(text: str) -> None:
    with pytest.raises(TelemetryError) as refusal:
        BrokerUrl.parse(text)
    assert SECRET not in str(refusal.value)


@pytest.mark.parametrize(
    "assignments",
    [
        [f"telemetry.borker={URL}"],
        [f"telemetry.broker:{URL}"],
        [f"telemetry.broker={URL}", "telemetry.broker_port=1"],
        [f"telemetry.broker={URL}", "telemetry.interval_s=never"],
    ],
)
def test_errors_about_settings_do_not_show_the_broker(assignments: list[str]) -> None:
    with pytest.raises(SettingsError) as refusal:
        Settings().with_assignments(assignments)
    assert_hidden(refusal.value)


def test_settings_do_not_show_the_broker(tmp_path: Path) -> None:
    settings = Settings().with_assignments([f"telemetry.broker={URL}"])
    assert SECRET not in f"{settings} {settings!r}"
    file = tmp_path / "settings.json"
    file.write_text(settings.model_dump_json().replace('"broker_port":null', '"broker_port":1'))
    with pytest.raises(SettingsError) as refusal:
        Settings.load(file)
    assert_hidden(refusal.value)


def assert_hidden(error: BaseException | None) -> None:
    """No error of the chain shows the secret, as a traceback would."""
    while error is not None:
        assert SECRET not in str(error)
        error = error.__cause__


def test_a_key_is_not_shown(tmp_path: Path) -> None:
    key = Key(signature="gmac", name="/k", secret=SECRET)
    assert SECRET not in f"{key} {key!r} {[key]}"
    file = tmp_path / "s0.keys"
    file.write_text(json.dumps({"signing": {"signature": "gmac", "secret": SECRET}}))
    with pytest.raises(SecurityError) as refusal:
        NodeKeys.load(file)
    assert_hidden(refusal.value)


def test_errors_about_requests_do_not_show_the_environment() -> None:
    with pytest.raises(ValidationError) as refusal:
        JobRequest.model_validate({"argv": ["true"], "options": {"env": {"TOKEN": [SECRET]}}})
    assert_hidden(refusal.value)


def models() -> Iterator[type[BaseModel]]:
    """The pydantic models of innet's packages that handle secrets."""
    packages = ("cluster", "node", "security", "telemetry", "worker")
    for module in pkgutil.walk_packages(innet_package.__path__, "innet."):
        package, *rest = module.name.removeprefix("innet.").split(".")
        if package not in (*packages, "settings") or {"adapters", "__main__"} & set(rest):
            continue
        if rest == ["on_ray", "driver"]:  # needs Ray; what it reads is in `orders`
            continue
        for found in vars(importlib.import_module(module.name)).values():
            if isinstance(found, type) and issubclass(found, BaseModel) and found is not BaseModel:
                yield found


def test_models_with_secrets_hide_their_input_in_errors() -> None:
    """The outermost model decides: so each that has one with a hidden field, however deep."""
    secret: set[type[BaseModel]] = set()
    everything = set(models())

    def has_secret(model: type[BaseModel], seen: frozenset[Any] = frozenset()) -> bool:
        if model in seen:
            return False
        fields = model.model_fields.values()
        return any(not field.repr for field in fields) or any(
            has_secret(part, seen | {model})
            for field in fields
            for part in everything
            if re.search(rf"\b{part.__name__}\b", str(field.annotation))
        )

    secret = {model for model in everything if has_secret(model)}
    assert {Key, NodeKeys, Settings} <= secret
    shown = {m.__name__ for m in secret if not m.model_config.get("hide_input_in_errors")}
    assert shown == set()
