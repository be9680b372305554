"""Nodes are asked for a sign of life again and again, each at its own pace."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from innet.cluster.control.heartbeats import Heartbeats
from innet.errors import NoAnswer

SLOW = ["slow", *(f"slow{number}" for number in range(1, 20))]


class Nodes:
    """Stands in for the control sockets of ``quick``, which answers, and ``SLOW``, as told."""

    def __init__(self) -> None:
        self.slow_answers = threading.Event()
        self.slow_is_silent = False
        self.errors_in: set[str] = set()
        self.incarnations = dict.fromkeys([*SLOW, "quick"], 1)
        self.said: Counter[str] = Counter()
        self._changed = threading.Condition()

    def connect(self, node: str) -> Any:
        nodes = self

        class Client:
            def ask(self, method: str, timeout_s: float, give_up: Any) -> dict[str, Any]:
                nodes.note(f"{node} asked")
                while node in SLOW and not nodes.slow_answers.wait(0.01):
                    if give_up():
                        raise NoAnswer("given up")
                if node in SLOW and nodes.slow_is_silent:
                    raise NoAnswer("nothing")
                return {"unheard": []}

            def close(self) -> None:
                pass

        return Client()

    def note(self, what: str) -> None:
        with self._changed:
            self.said[what] += 1
            self._changed.notify_all()
        if what in self.errors_in:
            raise KeyError(what)

    def until(self, what: str, times: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.said[what] >= times, 30)


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    made = Nodes()
    heartbeats = Heartbeats(
        lambda: dict(made.incarnations),
        made.connect,
        0.01,
        1.0,
        on_silent=lambda node: made.note(f"{node} silent"),
        on_heard=lambda node: made.note(f"{node} heard"),
        on_answer=lambda node, _: made.note(f"{node} answered"),
        on_round=lambda _slow: made.note("round"),
    )
    yield made
    heartbeats.close()


def test_however_many_take_long_they_hold_up_no_other(nodes: Nodes) -> None:
    nodes.until("quick answered", 5)
    assert nodes.said["slow answered"] == nodes.said["slow silent"] == 0
    nodes.slow_answers.set()
    nodes.until("slow answered", 3)


def test_silence_and_return_are_told_once_each(nodes: Nodes) -> None:
    nodes.slow_is_silent = True
    nodes.slow_answers.set()
    nodes.until("slow silent", 1)
    nodes.until("round", nodes.said["round"] + 5)
    assert nodes.said["slow silent"] == 1
    nodes.slow_is_silent = False
    nodes.until("slow heard", 1)
    nodes.until("slow answered", 3)
    assert nodes.said["slow heard"] == 1


def test_an_error_in_what_is_called_ends_no_watch(
    nodes: Nodes, caplog: pytest.LogCaptureFixture
) -> None:
    nodes.errors_in = {"slow silent", "quick answered", "round"}
    nodes.slow_is_silent = True
    nodes.slow_answers.set()
    nodes.until("slow silent", 2)
    nodes.until("quick answered", 2)
    nodes.until("round", 2)
    assert "what quick answered, or did not, met with an error" in caplog.text
    nodes.errors_in = set()
    nodes.slow_is_silent = False
    nodes.until("slow answered", 1)


def test_a_process_that_is_gone_says_nothing_of_its_successor(nodes: Nodes) -> None:
    nodes.until("slow asked", 1)
    nodes.incarnations["slow"] = 2
    nodes.until("slow asked", 2)
    assert nodes.said["slow silent"] == 0
