"""The controller's socket: questions and answers while processes come and go."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import zmq

from innet.errors import ControlError, NoAnswer
from innet.node.control.controller_socket import ControllerClient, ControllerServer
from innet.worker.controller_connection import ControllerConnection
from tests.cluster.control.descriptors import no_descriptors_left
from tests.cluster.control.handlers import HANDLERS


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "controller.ctl"


@pytest.fixture
def client(path: Path) -> Iterator[ControllerClient]:
    with ControllerClient(path) as asking:
        yield asking


def serve(path: Path) -> ControllerServer:
    return ControllerServer(path, HANDLERS, who="the controller")


def test_questions_of_any_size_are_answered_and_refusals_say_why(path, client):
    with serve(path):
        for size in (0, 1, 3_000_000):
            assert client.ask("echo", text="ä\n" * size) == {"text": "ä\n" * size}
        with pytest.raises(ControlError, match="the controller of this run: not today"):
            client.ask("fail")
        assert client.ask("pid") == os.getpid()


def test_many_clients_at_once(path):
    answers: list[object] = []

    def ask(number: int) -> None:
        with ControllerClient(path) as asking:
            answers.extend(asking.ask("echo", number=number)["number"] for _ in range(5))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    with serve(path):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(answers) == sorted(list(range(20)) * 5)


def test_who_asks_before_anybody_listens_waits_for_the_answer(path, client):
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.append(client.ask("pid")))
    thread.start()
    with serve(path):
        thread.join()
    assert answers == [os.getpid()]


def test_a_worker_finds_the_server_that_took_the_place_of_another(path):
    # A question that the one before takes with it to its end is asked again.
    with closing(ControllerConnection(path, patience_s=60)) as worker:
        for _ in range(3):
            with serve(path):
                assert worker.ask("pid") == os.getpid()


def test_nobody_there_is_said(client):
    with pytest.raises(NoAnswer, match=r"did not answer 'pid' within 0\.1 s"):
        client.ask("pid", timeout_s=0.1)


def test_nobody_waits_for_a_client_that_does_not_read(path, client):
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
    with serve(path), context.socket(zmq.DEALER) as idle:
        idle.connect(f"ipc://{path}")
        question = b'{"method": "echo", "params": {"text": "%s"}}' % (b"x" * 100_000)
        for _ in range(100):
            idle.send_multipart([b"", question])
        assert client.ask("pid") == os.getpid()
        idle.linger = 0


def test_nonsense_is_refused(path, client):
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
    with serve(path), context.socket(zmq.REQ) as stranger:
        stranger.connect(f"ipc://{path}")
        for nonsense in ([b"\xff\xfe"], [b"[]"], [b"", b"two", b"frames"]):
            stranger.send_multipart(nonsense)
            assert b'"ok":false' in stranger.recv()
        assert client.ask("pid") == os.getpid()


def test_a_client_without_descriptors_says_so(path):
    with (
        serve(path),
        no_descriptors_left(),
        ControllerClient(path) as client,
        pytest.raises(ControlError, match="Too many open files"),
    ):
        client.ask("pid", timeout_s=0.1)
