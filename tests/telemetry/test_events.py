"""Events reach those who listen in this process, and nobody in another."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from innet.telemetry import events
from innet.telemetry.events import Happening


@pytest.fixture
def heard() -> Iterator[list[Happening]]:
    """The events that a listener received."""
    happenings: list[Happening] = []
    events.listen(happenings.append)
    yield happenings
    events.ignore(happenings.append)


def test_an_event_is_delivered_and_logged_with_its_operation(
    heard: list[Happening], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "innet"):
        events.report("operation_failed", "RankFailed: ...", operation="allreduce", error="x")
    assert [h.details["operation"] for h in heard] == ["allreduce"]
    (record,) = caplog.records
    assert (record.event, record.operation) == ("operation_failed", "allreduce")  # type: ignore[attr-defined]


FORKS = """
import os
from innet.telemetry import events
heard = []
events.listen(heard.append)
child = os.fork()
events.report("group_left", "in one of two processes")
if child == 0:
    os._exit(len(heard))
assert os.waitpid(child, 0)[1] == 0
assert len(heard) == 1
"""


def test_a_forked_child_publishes_nothing_for_its_parent() -> None:
    subprocess.run([sys.executable, "-c", FORKS], check=True, timeout=240)
