"""The controller's process as its launcher keeps it: restarted, and given up at last."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from innet.cluster.control import remote
from innet.cluster.launch.infrastructure import ControllerProcess
from innet.errors import EmulationError, NoAnswer
from innet.security.trust.keys import PrivateKey
from innet.settings import RecoverySettings
from innet.topology import load_topology


class _Processes:
    """Starts processes that end at once, or cannot be started again."""

    terminating = False

    def __init__(self, most: int) -> None:
        self._most = most
        self._on_exit: Any = None
        self.started = 0

    def on_exit(self, callback: Any) -> None:
        self._on_exit = callback

    def spawn(self, _spec: object) -> Any:
        if self.started == self._most:
            raise EmulationError("cannot start the controller")
        self.started += 1
        process = SimpleNamespace(
            describe=lambda: "controller (pid 7) was killed",
            send_signal=lambda _number: None,
            wait=lambda: asyncio.sleep(0),
        )
        asyncio.get_running_loop().call_soon(lambda: self._on_exit(process))
        return process


@pytest.mark.parametrize(("most_started", "started"), [(9, 3), (2, 2)])
def test_without_a_controller_requests_fail_and_worker_ends_are_queued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_started: int, started: int
) -> None:
    monkeypatch.setattr(remote, "_ANSWER_TIMEOUT_S", 1.0)
    monkeypatch.setattr("innet.cluster.launch.infrastructure._FIRST_PAUSE_S", 0.0)
    processes = _Processes(most_started)
    network: Any = SimpleNamespace(
        run_dir=tmp_path,
        settings_path=tmp_path / "settings.json",
        run_id="r",
        topology=load_topology("star:2"),
        config=lambda node: SimpleNamespace(control_socket=tmp_path / f"{node}.ctl"),
        placed_elsewhere={},
        processes=processes,
        on_hurry=lambda _callback: None,
        record_end=lambda _process, *, returns, restarts: None,
    )
    said: list[str] = []

    async def lose_all_controllers() -> None:
        settings = RecoverySettings(controller_restarts=2)
        controller = ControllerProcess(network, settings, said.append, PrivateKey.generate())
        async with controller:
            with pytest.raises(NoAnswer):
                await asyncio.to_thread(controller.remote.ping)
            await asyncio.to_thread(controller.remote.end, "h0", "exited with code 0")
            await asyncio.to_thread(controller.remote.lose, "h1", "was killed")
            assert await asyncio.to_thread(controller.remote.failures) == {"h1": "was killed"}

    asyncio.run(lose_all_controllers())
    assert processes.started == started
    assert "not restarted" in said[-1] or "cannot start" in said[-1]
