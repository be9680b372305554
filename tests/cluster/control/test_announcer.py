"""A node tells its controller which prefixes programs serve there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from innet._native import _core
from innet.ndn import Client
from innet.node.announcer import Announcer, _within_bounds
from innet.node.controller_client import CONTROLLER_SOCKET_NAME
from innet.node.native_settings import NodeSizes, native_settings
from innet.node.node_config import NodeConfig
from innet.settings import Settings
from tests.cluster.control.controller_thread import ControllerThread

PREFIXES = tuple(f"/data/{i:03}" for i in range(200))


class Controller:
    """Hears announcements, and answers one when it may."""

    def __init__(self, run_dir: Path) -> None:
        self.heard: list[tuple[str, ...]] = []
        self.apart: dict[str, str] = {}
        self.may_answer = threading.Event()
        self.may_answer.set()
        self._changed = threading.Condition()
        self._server = ControllerThread(
            run_dir / CONTROLLER_SOCKET_NAME, {"announce": self.announce}
        )

    def announce(
        self, node: str, incarnation: int, version: int, prefixes: list[str]
    ) -> dict[str, str]:
        assert (node, incarnation) == ("h0", 7)
        with self._changed:
            self.heard.append(tuple(prefixes))
            self._changed.notify_all()
        assert self.may_answer.wait(20)
        return self.apart

    def until(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, 240), self.heard

    def until_served(self, *prefixes: str) -> None:
        self.until(lambda: bool(self.heard) and self.heard[-1] == prefixes)

    def close(self) -> None:
        self.may_answer.set()
        self._server.close()


class Host:
    """A host's node, where programs connect."""

    def __init__(self, run_dir: Path) -> None:
        self.config = NodeConfig(
            run_id="lab",
            node="h0",
            kind="host",
            mode="local",
            run_dir=run_dir,
            faces=(),
            routes=(),
            slots=0,
            cache_bytes=0,
            cache_policy="lru",
            control_socket=run_dir / "h0.ctl",
            ndn_socket=run_dir / "h0.ndn",
            seed=1,
            ip_address=None,
        )
        settings = native_settings("h0", Settings(), NodeSizes())
        self.node = _core.Node(settings, _core.SigningKey("digest"), [])
        self.uri = self.node.listen(f"unix://{self.config.ndn_socket}")
        self.node.start()
        self.announcer = Announcer(self.node, self.config, incarnation=7)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path)
    yield made
    made.announcer.close()
    made.node.stop("the test is over")


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Controller]:
    with ExitStack() as stack:
        made = Controller(tmp_path)
        stack.callback(made.close)
        yield made


async def serve(client: Client, prefix: str) -> None:
    await client.register(prefix, lambda _interest: None)


async def test_the_controller_is_told_of_prefixes_and_their_withdrawal(host, controller):
    async with Client(host.uri) as client:
        await serve(client, "/sum")
        await asyncio.to_thread(controller.until_served, "/sum")
        async with Client(host.uri) as other:
            await serve(other, "/sum")
            await serve(other, "/data/x")
            await asyncio.to_thread(controller.until_served, "/sum", "/data/x")
            await client.unregister("/sum")
        await asyncio.to_thread(controller.until_served)
    assert host.announcer.registered.prefixes == ()


async def test_changes_during_a_report_are_reported_together(host, controller):
    controller.may_answer.clear()
    async with Client(host.uri) as client:
        await serve(client, "/first")
        await asyncio.to_thread(controller.until_served, "/first")
        for prefix in PREFIXES:
            await serve(client, prefix)
            await client.unregister(prefix)
        await asyncio.gather(*(serve(client, prefix) for prefix in PREFIXES))
        controller.may_answer.set()
        await asyncio.to_thread(lambda: controller.until_served(*PREFIXES, "/first"))
    different = list(dict.fromkeys(controller.heard))  # on a slow machine, the first is repeated
    assert different[:2] == [("/first",), (*PREFIXES, "/first")]


async def test_a_controller_that_was_away_is_told_on_its_return(host, tmp_path):
    async with Client(host.uri) as client:
        await serve(client, "/sum")
        back = await asyncio.to_thread(Controller, tmp_path)
        await asyncio.to_thread(back.until_served, "/sum")
        assert host.announcer.unannounced == {}
        await asyncio.to_thread(back.close)


async def test_prefixes_that_are_not_announced_are_reported_with_the_reason(
    host, controller, caplog
):
    controller.apart = {"/n/x": "names below /n are those of nodes"}
    async with Client(host.uri) as client:
        await serve(client, "/n/x")
        await asyncio.to_thread(controller.until_served, "/n/x")
        await serve(client, "/sum")
        await asyncio.to_thread(controller.until_served, "/n/x", "/sum")
    assert "only h0 knows that /n/x is served: names below /n are those of nodes" in caplog.text
    assert host.announcer.unannounced == controller.apart


def test_an_announcement_has_as_many_prefixes_as_the_controller_takes():
    long = [f"/{number}{'x' * 999}" for number in range(1000)]
    kept = _within_bounds(long)
    assert kept == long[: len(kept)]
    assert 500 < len(kept) < 600
    assert _within_bounds(["/a", "/b"]) == ["/a", "/b"]
