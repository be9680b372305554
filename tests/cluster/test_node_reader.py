"""Reading the status of many nodes: connections are kept, and no node holds up the others."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from innet.cluster.node_reader import NodeReader
from innet.errors import ControlError
from innet.node.control_server import ControlServer


@contextlib.contextmanager
def _node(path: Path, status: Callable[[], Any]) -> Iterator[None]:
    with ControlServer(path, {"status": status}, who=path.stem):
        yield


@pytest.fixture
def sockets(tmp_path) -> dict[str, Path]:
    return {name: tmp_path / f"{name}.ctl" for name in ("a", "b", "c")}


@pytest.fixture
def connections(monkeypatch) -> list[str]:
    """The sockets that were connected to."""
    made: list[str] = []
    connect = socket.socket.connect

    def counted(self: socket.socket, address: Any) -> None:
        made.append(Path(address).stem)
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", counted)
    return made


def test_one_connection_serves_all_readings_of_a_node(sockets, connections):
    answers = iter(range(10))
    with _node(sockets["a"], lambda: {"n": next(answers)}), NodeReader() as reader:
        readings = [reader.read({"a": sockets["a"]}, 60) for _ in range(3)]
    assert [reading.nodes["a"]["n"] for reading in readings] == [0, 1, 2]
    assert connections == ["a"]


def test_a_reader_that_needs_no_rules_says_so(sockets):
    asked: list[dict[str, Any]] = []

    def status(**parameters: Any) -> dict[str, Any]:
        asked.append(parameters)
        return {}

    with _node(sockets["a"], status):
        for reader in (NodeReader(), NodeReader(with_rules=False)):
            with reader:
                assert reader.read({"a": sockets["a"]}, 60).nodes == {"a": {}}
    assert asked == [{}, {"with_rules": False}]


def test_the_next_process_of_a_node_is_connected_to(sockets, connections):
    with NodeReader() as reader:
        for generation in (1, 2):
            with _node(sockets["a"], partial(dict, n=generation)):
                assert reader.read(sockets, 60).nodes == {"a": {"n": generation}}
    assert connections == ["a", "a"]


def test_nodes_without_an_answer_are_told_with_the_reason(sockets):
    def refuse() -> None:
        raise ControlError("not now")

    with (
        _node(sockets["a"], lambda: {"n": 1}),
        _node(sockets["b"], refuse),
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stopped,
        NodeReader() as reader,
    ):
        stopped.bind(str(sockets["c"]))
        stopped.listen()
        first = reader.read(sockets | {"d": Path("/nowhere/d.ctl")}, 0.2)
        again = reader.read(sockets, 0.2)
    assert first.nodes == again.nodes == {"a": {"n": 1}}
    assert first.silent["b"] == "b: not now"
    assert "c did not answer 'status' within 0.2 s" in first.silent["c"]
    assert first.silent["d"] == "no node of innet (yet) in its process"
    assert first.read_at.keys() == {"a"}


def test_nobody_waits_for_a_node_that_is_held(sockets):
    """Neither for one that is held before it is asked, nor for one that is held meanwhile."""
    asked: list[str] = []
    release = threading.Event()

    def answer(node: str) -> dict[str, Any]:
        asked.append(node)
        if node == "b":
            release.wait(60)
        return {}

    def held() -> dict[str, int]:
        return {"c": 7} | {node: 8 for node in asked if node == "b"}

    with contextlib.ExitStack() as stack:
        for name in ("a", "b", "c"):
            stack.enter_context(_node(sockets[name], partial(answer, name)))
        stack.callback(release.set)
        reader = stack.enter_context(NodeReader())
        readings = reader.read(sockets, 1e6, held=held)
    assert readings.nodes == {"a": {}}
    assert sorted(asked) == ["a", "b"]
    assert readings.silent == {
        node: f"a signal or a debugger holds its process. `kill -CONT {pid}` lets it go on."
        for node, pid in (("b", 8), ("c", 7))
    }


def test_a_node_that_nobody_serves_is_silent_at_once(sockets):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(sockets["a"]))
    with NodeReader() as reader:
        assert "Connection refused" in reader.read({"a": sockets["a"]}, 1e9).silent["a"]


def test_a_reading_keeps_the_order_of_its_phases(sockets):
    with contextlib.ExitStack() as stack:
        for path in sockets.values():
            stack.enter_context(_node(path, dict))
        reader = stack.enter_context(NodeReader())
        forth = reader.read(sockets, 60, [["a"], ["b", "stranger"]]).read_at
        back = reader.read(sockets, 60, [["b"], ["a"]]).read_at
    assert forth["a"][1] <= forth["b"][0]
    assert back["b"][1] <= back["a"][0]
    assert forth["b"][1] <= forth["c"][0]  # in no phase: after all
