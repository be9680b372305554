"""Strategies in Python decide for a node that runs, whose packets go through real sockets."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from innet._native import _core
from innet.errors import StrategyError
from innet.ndn.strategy import (
    Decision,
    PendingInterest,
    Refuse,
    Strategy,
    StrategyRunner,
    load_strategy,
)
from innet.ndn.wire import encode_data, encode_interest, parse_interest, parse_lp_packet
from innet.node.native_settings import NodeSizes, native_settings
from innet.settings import Settings
from tests.attacks.outsider import linked_socket

PATIENCE_S = 5.0


class Neighbourhood:
    """A node with three neighbours: 0 sends Interests, 1 (cheaper) and 2 are routes to /a."""

    def __init__(self, stack: ExitStack) -> None:
        settings = native_settings("n", Settings(), NodeSizes())
        key = _core.SigningKey("digest")
        self.node = _core.Node(settings, key, [key])
        self._sockets = [stack.enter_context(linked_socket(self.node)) for _ in range(3)]
        for neighbour in self._sockets:
            neighbour.settimeout(20)
        self.node.start()
        stack.callback(self.node.stop, "the test is over")
        self.node.add_route("/a", 1, 1)
        self.node.add_route("/a", 2, 2)

    def decide_by(self, strategy: Strategy, patience_s: float = PATIENCE_S) -> StrategyRunner:
        return StrategyRunner(self.node, "/a", strategy, patience_s=patience_s)

    def ask(self, name: str) -> None:
        self._sockets[0].send(encode_interest(name))

    def take(self, neighbour: int) -> bytes:
        """The payload of the next packet for it."""
        return parse_lp_packet(self._sockets[neighbour].recv(9000)).payload

    def nack_reason(self) -> int | None:
        """The reason of the Nack to the requester."""
        return parse_lp_packet(self._sockets[0].recv(9000)).nack_reason

    def answer(self, neighbour: int) -> str:
        """Answer the next Interest for it; its name."""
        name = parse_interest(self.take(neighbour)).name
        self._sockets[neighbour].send(encode_data(name, b"value"))
        return str(name)

    def counter(self, name: str) -> int:
        return int(self.node.status()["node"][name])


@pytest.fixture
def neighbourhood() -> Iterator[Neighbourhood]:
    with ExitStack() as stack:
        yield Neighbourhood(stack)


class TakesTheDearest(Strategy):
    def __init__(self) -> None:
        self.asked: list[PendingInterest] = []
        self.answered: list[tuple[str, int]] = []
        self.heard = threading.Event()

    def after_receive_interest(self, interest: PendingInterest) -> Decision:
        self.asked.append(interest)
        return [interest.next_hops[-1].face]

    def before_satisfy_interest(self, name: str, face: int, rtt_s: float | None) -> None:
        assert rtt_s is not None
        assert rtt_s > 0
        self.answered.append((name, face))
        self.heard.set()


def test_a_strategy_decides_and_is_told_of_the_answer(neighbourhood: Neighbourhood) -> None:
    strategy = TakesTheDearest()
    runner = neighbourhood.decide_by(strategy)
    runner.start()
    label = f"{__name__}:TakesTheDearest".replace(":", "%3A")
    assert ("/a", f"/localhost/nfd/strategy/python/{label}") in neighbourhood.node.strategies()
    neighbourhood.ask("/a/x")
    assert neighbourhood.answer(2) == "/a/x"
    assert neighbourhood.take(0)
    assert strategy.heard.wait(20)
    assert strategy.answered == [("/a/x", 2)]
    (interest,) = strategy.asked
    assert (interest.name, interest.face, interest.repeated) == ("/a/x", 0, False)
    assert [tuple(hop) for hop in interest.next_hops] == [(1, 1), (2, 2)]
    runner.stop()
    neighbourhood.ask("/a/y")
    assert neighbourhood.answer(1) == "/a/y"
    assert neighbourhood.node.strategies() == [("/", "/localhost/nfd/strategy/best-route/v=5")]


def test_after_an_exception_best_route_decides_and_the_exception_is_logged(
    neighbourhood: Neighbourhood, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Strategy):
        def after_receive_interest(self, interest: PendingInterest) -> Decision:
            raise ZeroDivisionError("no idea")

    runner = neighbourhood.decide_by(Broken())
    with caplog.at_level(logging.ERROR):
        runner.start()
        neighbourhood.ask("/a/x")
        assert neighbourhood.answer(1) == "/a/x"
    runner.stop()
    assert runner.failures == 1
    assert neighbourhood.counter("strategy_failed") == 1
    assert "the strategy for /a" in caplog.text
    assert "no idea" in caplog.text


def test_a_hung_strategy_blocks_nobody(neighbourhood: Neighbourhood) -> None:
    class Hanging(Strategy):
        def __init__(self) -> None:
            self.released = threading.Event()

        def after_receive_interest(self, interest: PendingInterest) -> Decision:
            self.released.wait()
            return [2]

    strategy = Hanging()
    runner = neighbourhood.decide_by(strategy, patience_s=0.01)
    runner.start()
    neighbourhood.node.add_route("/b", 2)
    neighbourhood.ask("/a/x")
    neighbourhood.ask("/b/x")  # another name does not wait at all
    assert neighbourhood.answer(2) == "/b/x"
    assert neighbourhood.answer(1) == "/a/x"
    assert neighbourhood.counter("strategy_late") == 1
    strategy.released.set()
    runner.stop()


def test_a_strategy_can_refuse(neighbourhood: Neighbourhood) -> None:
    class Refusing(Strategy):
        def after_receive_interest(self, interest: PendingInterest) -> Decision:
            return Refuse(50)

    runner = neighbourhood.decide_by(Refusing())
    runner.start()
    neighbourhood.ask("/a/x")
    assert neighbourhood.nack_reason() == 50
    runner.stop()


def test_a_strategy_is_loaded_by_its_module_and_name() -> None:
    assert isinstance(load_strategy(f"{__name__}:TakesTheDearest"), TakesTheDearest)
    for place in ("no_such_module:X", f"{__name__}:Nothing", f"{__name__}", "logging:Handler"):
        with pytest.raises(StrategyError):
            load_strategy(place)
