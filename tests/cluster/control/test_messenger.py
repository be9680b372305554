"""What nodes hear of what they are told in the background."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from innet.errors import NoAnswer
from innet.node.control.messenger import Messenger

MESSAGES = 40


class Node:
    """Stands in for a node's control socket: hears a message when it may, and keeps it."""

    def __init__(self) -> None:
        self.heard: list[int] = []
        self.may_answer = threading.Event()
        self.asked = threading.Event()
        self.answers = True
        self._lock = threading.Lock()

    def ask(self, _method: str, *, timeout_s: float, number: int) -> None:
        self.asked.set()
        self.may_answer.wait(timeout_s)
        if not self.answers:
            raise NoAnswer("it hangs")
        with self._lock:
            self.heard.append(number)

    def __enter__(self) -> Node:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Nodes(dict[str, Node]):
    def __missing__(self, name: str) -> Node:
        return self.setdefault(name, Node())

    def connect(self, name: str) -> Any:
        return self[name]


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


@pytest.fixture
def messenger(nodes: Nodes) -> Iterator[Messenger]:
    made = Messenger(nodes.connect)
    yield made
    made.close()


def test_a_node_hears_in_the_order_in_which_it_was_told(messenger: Messenger, nodes: Nodes):
    for number in range(MESSAGES):
        messenger.tell(["h0", "h1"], "place_group", number=number)
    nodes["h0"].may_answer.set()
    nodes["h1"].may_answer.set()
    messenger.wait()
    assert nodes["h0"].heard == nodes["h1"].heard == list(range(MESSAGES))


def test_one_that_takes_its_time_keeps_no_other_waiting(messenger: Messenger, nodes: Nodes):
    for number in range(MESSAGES):  # more than there are threads
        messenger.tell(["slow"], "place_group", number=number)
    assert nodes["slow"].asked.wait(10)
    nodes["quick"].may_answer.set()
    messenger.ask_all({"quick": [("place_group", {"number": 7})]})
    assert nodes["quick"].heard == [7]
    assert nodes["slow"].heard == []
    nodes["slow"].may_answer.set()


def test_one_that_hangs_hears_again_once_it_answers(messenger: Messenger, nodes: Nodes):
    node = nodes["h0"]
    node.may_answer.set()
    node.answers = False
    messenger.tell(["h0"], "place_group", number=1)
    messenger.wait()
    node.answers = True
    messenger.tell(["h0"], "place_group", number=2)
    messenger.wait()
    assert node.heard == [2]


def test_what_cannot_be_said_does_not_keep_back_what_comes_next(
    messenger: Messenger, nodes: Nodes, caplog: pytest.LogCaptureFixture
):
    nodes["h0"].may_answer.set()
    messenger.tell(["h0"], "place_group", other=1)
    messenger.tell(["h0"], "place_group", number=2)
    messenger.wait()
    assert nodes["h0"].heard == [2]
    assert "could not be told" in caplog.text
