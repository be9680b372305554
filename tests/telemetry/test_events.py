"""Events reach those who listen in this process, and nobody in another."""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import Iterator

import pytest

from innet.telemetry import events
from innet.telemetry.events import Happening


@pytest.fixture
def heard() -> Iterator[list[Happening]]:
    """What a listener is told."""
    happenings: list[Happening] = []
    events.listen(happenings.append)
    yield happenings
    events.ignore(happenings.append)


def test_an_event_is_heard_and_logged_with_its_operation(
    heard: list[Happening], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "innet"):
        events.report("operation_failed", "RankFailed: ...", operation="allreduce", error="x")
    assert [h.details["operation"] for h in heard] == ["allreduce"]
    (record,) = caplog.records
    assert (record.event, record.operation) == ("operation_failed", "allreduce")  # type: ignore[attr-defined]


def test_a_forked_child_publishes_nothing_for_its_parent(heard: list[Happening]) -> None:
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()

    def child() -> None:
        events.report("group_left", "in the child")
        results.put(len(heard))

    process = context.Process(target=child)
    process.start()
    assert results.get() == 0
    process.join()
    assert heard == []
