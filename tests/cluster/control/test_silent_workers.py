"""Workers that do not answer the controller: who is stopped is ended, who is busy is left alone."""

from __future__ import annotations

import pytest

from innet.cluster.control.silent_workers import SilentWorkers
from innet.settings import RecoverySettings


class Run:
    """A run with workers that fall silent."""

    def __init__(self, **settings: float) -> None:
        self.heard: set[str] = set()
        self.expelled: dict[str, str] = {}
        self.workers = SilentWorkers(
            RecoverySettings(**settings), self.heard.__contains__, self.expelled.__setitem__
        )

    def is_silent(self, node: str, times: int = 1) -> None:
        for _ in range(times):
            assert self.workers.on_silent(node)


def test_a_worker_that_nobody_hears_is_ended_with_the_setting_that_says_so() -> None:
    run = Run()
    run.is_silent("h1")
    assert "not answered for 30 s (recovery.worker_timeout_s)" in run.expelled["h1"]


def test_a_worker_whose_node_lives_is_never_ended_by_default(
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = Run()
    run.heard.add("h1")
    run.is_silent("h1", times=100)
    assert run.expelled == {}
    (told,) = caplog.messages
    assert "recovery.interpreter_timeout_s" in told


def test_a_setting_ends_a_worker_whose_node_lives_and_the_message_names_it() -> None:
    run = Run(interpreter_timeout_s=60)
    run.heard.add("h1")
    run.is_silent("h1")
    assert run.expelled == {}
    run.is_silent("h1")
    assert "not answered for 60 s (recovery.interpreter_timeout_s)" in run.expelled["h1"]


def test_an_answer_begins_the_time_anew() -> None:
    run = Run(interpreter_timeout_s=60)
    run.heard.add("h1")
    for _ in range(10):
        run.is_silent("h1")
        run.workers.on_answer("h1")
    assert run.expelled == {}


def test_a_busy_worker_that_is_stopped_then_is_ended() -> None:
    run = Run()
    run.heard.add("h1")
    run.is_silent("h1")
    run.heard.clear()
    run.is_silent("h1")
    assert "recovery.worker_timeout_s" in run.expelled["h1"]
