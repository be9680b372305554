"""Control sockets: requests and replies, and what happens when a process is in trouble."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from innet.errors import ControlError, HostTaken, NoAnswer, RankFailed
from innet.node.control_server import ControlServer
from innet.node.requests import ControlClient, ControlRequest
from tests.cluster.control.controller_thread import HANDLERS, no_descriptors_left


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s0.ctl"


@pytest.fixture
def server(path: Path) -> Iterator[ControlServer]:
    with ControlServer(path, HANDLERS, who="s0") as running:
        yield running


def test_requests_of_any_size_are_answered(server, path):
    with ControlClient(path, who="s0") as client:
        for size in (0, 1, 100_000, 3_000_000):
            assert client.request("echo", text="ä\n" * size) == {"text": "ä\n" * size}


def test_a_refusal_has_the_text_of_the_server(server, path):
    with ControlClient(path, who="s0") as client:
        with pytest.raises(ControlError, match="s0: not today"):
            client.request("fail")
        assert client.request("pid") == os.getpid()


def test_many_clients_at_once(server, path):
    answers: list[int] = []

    def ask(number: int) -> None:
        with ControlClient(path, who="s0") as client:
            answers.extend(client.request("echo", number=number)["number"] for _ in range(5))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == sorted(list(range(20)) * 5)


def test_a_request_before_the_server_listens_waits_for_the_reply(path):
    answers: list[object] = []
    client = ControlClient(path, who="s0")
    thread = threading.Thread(target=lambda: answers.append(client.request("pid")))
    thread.start()
    with ControlServer(path, HANDLERS, who="s0"):
        thread.join()
    assert answers == [os.getpid()]
    client.close()


def test_a_client_finds_the_successor_of_a_server(path):
    with ControlClient(path, who="s0") as client:
        for _ in range(3):
            with ControlServer(path, HANDLERS, who="s0"):
                assert client.request("pid") == os.getpid()


def test_a_failed_rank_and_a_taken_host_raise_their_own_types(path):
    def fail() -> None:
        raise RankFailed("rank 2 (h2) was killed", rank=2)

    def take() -> None:
        raise HostTaken("process 7 has the node of h1")

    handlers = {"fail": fail, "take": take}
    with ControlServer(path, handlers, who="s0"), ControlClient(path, who="s0") as client:
        with pytest.raises(RankFailed, match=r"^rank 2 \(h2\) was killed") as failure:
            client.request("fail")
        assert failure.value.rank == 2
        with pytest.raises(HostTaken, match="process 7 has the node of h1"):
            client.request("take")


def test_an_absent_server_is_reported_with_the_reason(path):
    with (
        ControlClient(path, who="s0") as client,
        pytest.raises(NoAnswer, match=r"s0 did not answer 'pid' within 0.1 s \(No such file"),
    ):
        client.request("pid", timeout_s=0.1)


def test_a_server_without_descriptors_still_answers_old_and_new_clients(server, path):
    with ControlClient(path, who="s0") as old:
        old.request("pid")
        strangers = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(3)]
        with no_descriptors_left():
            for stranger in strangers:
                stranger.connect(str(path))
                stranger.sendall(b'{"method": "echo", "params": {"a": 1}}\n')
                answer = json.loads(stranger.recv(1000))
                assert (answer["ok"], answer["result"]) == (True, {"a": 1})
            assert old.request("pid") == os.getpid()
        for stranger in strangers:
            stranger.close()


def test_a_server_without_descriptors_tells_further_clients_to_retry(path):
    asked, answered = threading.Event(), threading.Event()

    def wait() -> None:
        asked.set()
        answered.wait()

    question = b'{"method": "wait", "params": {}}\n'
    with (
        ControlServer(path, {"wait": wait}, who="s0"),
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client,
        no_descriptors_left(),
    ):
        client.connect(str(path))
        client.sendall(question)
        asked.wait()
        with pytest.raises(BrokenPipeError):
            client.sendall(question)
        answered.set()
        assert b'"ok":true' in client.recv(1000)


def test_a_client_without_descriptors_reports_it(server, path):
    with (
        no_descriptors_left(),
        ControlClient(path, who="s0") as client,
        pytest.raises(NoAnswer, match="Too many open files"),
    ):
        client.request("pid", timeout_s=0.1)


@pytest.mark.parametrize("questions", [1, 3])
def test_a_client_that_reads_late_delays_nobody_and_still_gets_its_reply(server, path, questions):
    text = "a" * 1_000_000
    line = ControlRequest(method="echo", params={"text": text}).model_dump_json().encode() + b"\n"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as idle:
        idle.settimeout(30)
        idle.connect(str(path))
        idle.sendall(line)
        with ControlClient(path, who="s0") as client:
            assert client.request("pid", timeout_s=2.0) == os.getpid()
        sending = threading.Thread(target=idle.sendall, args=(line * (questions - 1),))
        sending.start()
        answers = bytearray()
        while answers.count(b"\n") < questions:
            answers += idle.recv(1 << 20)
        sending.join()
    assert answers.count(text.encode()) == questions


def test_a_client_that_leaves_without_its_reply_is_dropped(server, path):
    line = (
        ControlRequest(method="echo", params={"text": "a" * 1_000_000}).model_dump_json().encode()
    )
    with ControlClient(path, who="s0") as client:
        for _ in range(3):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as gone:
                gone.connect(str(path))
                gone.sendall(line + b"\n")
            assert client.request("pid", timeout_s=2.0) == os.getpid()


def test_malformed_requests_are_refused_and_endless_ones_dropped(server, path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stranger:
        stranger.connect(str(path))
        stranger.sendall(b"\xff\xfe\n[]\n")
        answers = stranger.recv(100_000)
        while answers.count(b"\n") < 2:
            answers += stranger.recv(100_000)
        assert answers.count(b'"ok":false') == 2
    with ControlClient(path, who="s0") as client:
        assert client.request("pid") == os.getpid()
