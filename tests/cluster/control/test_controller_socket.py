"""The controller's socket: requests and replies while processes come and go."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import zmq
import zmq.asyncio

from innet.cluster.control.__main__ import needs_successor
from innet.cluster.control.controller_server import ControllerServer
from innet.errors import ControlError, HostTaken, NoAnswer, RankFailed
from innet.node.controller_client import ControllerClient, controller_address
from innet.node.requests import ControlRequest
from innet.worker.controller_connection import ControllerConnection
from tests.cluster.control.controller_thread import HANDLERS, ControllerThread, no_descriptors_left


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "controller.ctl"


@pytest.fixture
def client(path: Path) -> Iterator[ControllerClient]:
    with ControllerClient(path) as client:
        yield client


def serve(path: Path) -> ControllerThread:
    return ControllerThread(path, HANDLERS)


def test_requests_of_any_size_are_answered_and_refusals_state_the_reason(path, client):
    with serve(path):
        for size in (0, 1, 3_000_000):
            assert client.request("echo", text="ä\n" * size) == {"text": "ä\n" * size}
        with pytest.raises(ControlError, match="the controller of this run: not today"):
            client.request("fail")
        assert client.request("pid") == os.getpid()


def test_a_failed_rank_and_a_taken_host_raise_their_own_types(path, client):
    def fail() -> None:
        raise RankFailed("rank 2 (h2) was killed", rank=2)

    def take() -> None:
        raise HostTaken("process 7 has the node of h1")

    with ControllerThread(path, {"fail": fail, "take": take}):
        with pytest.raises(RankFailed, match=r"^rank 2 \(h2\) was killed") as failure:
            client.request("fail")
        assert failure.value.rank == 2
        with pytest.raises(HostTaken, match="process 7 has the node of h1"):
            client.request("take")


def test_many_clients_at_once(path):
    answers: list[int] = []

    def send(number: int) -> None:
        with ControllerClient(path) as client:
            answers.extend(client.request("echo", number=number)["number"] for _ in range(5))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(20)]
    with serve(path):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(answers) == sorted(list(range(20)) * 5)


def test_a_request_before_the_controller_listens_waits_for_the_reply(path, client):
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.append(client.request("pid")))
    thread.start()
    with serve(path):
        thread.join()
    assert answers == [os.getpid()]


def test_a_worker_finds_the_successor_of_a_controller(path):
    # A request that the one before takes with it to its end is sent again.
    with closing(ControllerConnection(path, patience_s=60)) as worker:
        for _ in range(3):
            with serve(path):
                assert worker.ask("pid") == os.getpid()


def test_an_absent_controller_is_named(client):
    with pytest.raises(NoAnswer, match=r"did not answer 'pid' within 0\.1 s"):
        client.request("pid", timeout_s=0.1)


def test_a_socket_that_cannot_be_opened_is_named_after_the_timeout(tmp_path: Path) -> None:
    looks = iter([False, False, True])
    with (
        ControllerClient(tmp_path / ("x" * 120)) as client,
        pytest.raises(NoAnswer, match="File name too long"),
    ):
        client.request("pid", give_up=lambda: next(looks))
    assert not list(looks)


def test_a_request_under_way_is_refused_when_the_controller_ends(path, client):
    began, may_end, refusals = threading.Event(), threading.Event(), []

    def hold() -> None:
        began.set()
        assert may_end.wait(20)

    def send() -> None:
        with pytest.raises(ControlError, match="ended before 'hold' did") as refusal:
            client.request("hold")
        refusals.append(refusal)

    server = ControllerThread(path, {"hold": hold})
    sender = threading.Thread(target=send)
    sender.start()
    assert began.wait(20)
    ender = threading.Thread(target=server.close)
    ender.start()
    sender.join(20)
    may_end.set()
    ender.join()
    assert len(refusals) == 1


def test_a_worker_asks_the_successor_of_a_controller_that_ends_first(path, monkeypatch):
    began, may_end, answers = threading.Event(), threading.Event(), []
    monkeypatch.setattr(
        "innet.worker.controller_connection._log.warning", lambda *_: may_end.set()
    )  # the first one has refused

    def hold() -> None:
        began.set()
        assert may_end.wait(20)

    def ask() -> None:
        with closing(ControllerConnection(path, 20.0)) as connection:
            answers.append(connection.ask("hold"))

    first = ControllerThread(path, {"hold": hold})
    asker = threading.Thread(target=ask)
    asker.start()
    assert began.wait(20)
    ender = threading.Thread(target=first.close)
    ender.start()
    ender.join()
    with ControllerThread(path, {"hold": lambda: "held"}):
        asker.join(20)
    assert answers == ["held"]


def test_a_client_that_does_not_read_delays_no_other(path, client):
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
    with serve(path), context.socket(zmq.DEALER) as idle:
        idle.connect(f"ipc://{path}")
        request = b'{"method": "echo", "params": {"text": "%s"}}' % (b"x" * 100_000)
        for _ in range(100):
            idle.send_multipart([b"", request])
        assert client.request("pid") == os.getpid()
        idle.linger = 0


FORKS = """
child = os.fork()
if child == 0:
    signal.alarm(20)  # a client that waits for a thread of the parent waits for ever
    os._exit(client.request('pid', timeout_s=10) != controller)
assert os.waitpid(child, 0)[1] == 0
"""
"""A child of a fork sends requests of its own."""


@pytest.mark.parametrize("meanwhile", [FORKS, "zmq.Context.instance().term()"])
def test_a_program_may_fork_and_end_its_own_zeromq(path, meanwhile):
    program = (
        "import os, signal, sys, zmq; from pathlib import Path\n"
        "from innet.node.controller_client import ControllerClient\n"
        "client = ControllerClient(Path(sys.argv[1])); controller = client.request('pid')\n"
        f"{meanwhile}\n"
        "assert client.request('pid') == controller"
    )
    with serve(path):
        subprocess.run([sys.executable, "-c", program, str(path)], check=True, timeout=240)


def test_malformed_requests_are_refused(path, client):
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
    with serve(path), context.socket(zmq.REQ) as stranger:
        stranger.connect(f"ipc://{path}")
        for nonsense in ([b"\xff\xfe"], [b"[]"], [b"", b"two", b"frames"]):
            stranger.send_multipart(nonsense)
            assert b'"ok":false' in stranger.recv()
        assert client.request("pid") == os.getpid()


def test_a_client_without_descriptors_reports_it(path):
    with (
        serve(path),
        no_descriptors_left(),
        ControllerClient(path) as client,
        pytest.raises(ControlError, match="Too many open files"),
    ):
        client.request("pid", timeout_s=0.1)


def test_a_reply_that_is_being_read_outlives_the_controller(path, client):
    # In a process of its own, which ends as soon as the server has closed.
    program = (
        "import asyncio, os, sys; from pathlib import Path;"
        "from innet.cluster.control.controller_server import ControllerServer\n"
        "async def respond(request): served.set(); return 'x' * 30_000_000\n"
        "async def main():\n"
        "    async with ControllerServer({Path(sys.argv[1]): respond}, who='the controller'):\n"
        "        await served.wait()\n"
        "    os._exit(0)\n"
        "served = asyncio.Event(); asyncio.run(main())"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(path)])
    assert len(client.request("text")) == 30_000_000
    assert process.wait(20) == 0


def test_a_socket_that_fails_is_reported_and_ends_the_process(path, monkeypatch):
    async def fail(_socket: object) -> list[bytes]:
        raise zmq.ZMQError(zmq.ENOTSOCK)

    async def serve() -> BaseException | None:
        failure: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

        def on_error(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            failure.set_result(context["exception"])

        asyncio.get_running_loop().set_exception_handler(on_error)
        monkeypatch.setattr(zmq.asyncio.Socket, "recv_multipart", fail)
        async with ControllerServer({path: lambda _request: failure}, who="the controller"):
            return await asyncio.wait_for(failure, 240)

    assert needs_successor(asyncio.run(serve()))


async def test_a_client_of_another_machine_that_reads_no_replies_is_kept_few(path):
    served: asyncio.Queue[None] = asyncio.Queue()

    async def serve(_request: ControlRequest) -> str:
        served.put_nowait(None)
        return "x" * 100_000

    async with ControllerServer({path: serve}, who="the controller", bounded={path}):
        with zmq.asyncio.Context() as context, context.socket(zmq.DEALER) as lying:
            lying.rcvhwm, lying.linger = 1, 0
            lying.connect(controller_address(path))
            for _ in range(300):
                await lying.send_multipart([b"", b'{"method": "plans"}'])
                await served.get()
            unread = 0
            while await lying.poll(500):
                await lying.recv_multipart()
                unread += 1
            assert 0 < unread < 100
            await lying.send_multipart([b"", b'{"method": "plans"}'])
            assert len(await lying.recv_multipart()) == 2
