"""Where ``innet`` finds the login to a broker."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from innet.cluster.emulation.runs import find_run
from innet.settings import SETTINGS_NAME
from tests.telemetry.brokers import Mosquitto, needs_mosquitto

from .runs import command_lines, invoked, read_until, started

SECRET = "hunter2"


@needs_mosquitto
@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("way", ["file", "environment"])
async def test_the_login_to_a_broker_is_read_from_a_file_or_the_environment(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    passwords = tmp_path / "passwords"
    passwords.write_text(f"ann:{SECRET}\n")
    hashing = await asyncio.create_subprocess_exec("mosquitto_passwd", "-U", passwords)
    assert await hashing.wait() == 0
    mosquitto = Mosquitto(tmp_path, f"password_file {passwords}", "user root")
    await mosquitto.start()
    url = f"mqtt://ann:{SECRET}@127.0.0.1:{mosquitto.port}"
    options = []
    if way == "file":
        file = tmp_path / "broker.url"
        file.touch(mode=0o600)
        file.write_text(url + "\n")
        options = ["--broker", f"file:{file}"]
    else:
        monkeypatch.setenv("INNET_BROKER", url)
    try:
        with started("up", "star:2", "--name", "private", *options) as launcher:
            await asyncio.to_thread(read_until, launcher, "innet down private")
            lines, run = command_lines(), find_run("private")
            told = await asyncio.to_thread(invoked, "tell", "private", "s0", "drop-cache")
            status = await asyncio.to_thread(invoked, "status", "private")
            settings = run.run_dir / SETTINGS_NAME
            mode = settings.stat().st_mode & 0o777
            await asyncio.to_thread(invoked, "down", "private")
    finally:
        mosquitto.kill()
    assert told.stdout == "s0 dropped 0 cached packets\n", told.stderr
    assert f"mqtt://ann@127.0.0.1:{mosquitto.port}" in status.stdout
    assert mode == 0o600
    for text in (lines, status.stdout, told.stderr, run.model_dump_json()):
        assert SECRET not in text
