"""Counters of failures that grow become events."""

from __future__ import annotations

from typing import Any

import pytest

from innet.node.node_telemetry import CounterEvents
from innet.telemetry.messages import NodeCounters

from .sources import LINK, counters


def reported(*readings: NodeCounters) -> list[tuple[str, dict[str, Any]]]:
    """The kinds and details of the events that these readings make."""
    found: list[tuple[str, dict[str, Any]]] = []
    watcher = CounterEvents(["s1"], lambda kind, _message, **details: found.append((kind, details)))
    for reading in readings:
        watcher.observe(reading, "/elsewhere/x")
    return found


@pytest.mark.parametrize(
    ("table", "counter", "event"),
    [
        ("reducer", "refused_no_slot", ("slots_exhausted", {"refused": 3, "slots": 8})),
        ("tables", "malformed", ("packets_refused", {"packets": 3, "reason": "malformed"})),
        (
            "tables",
            "invalid_signature",
            ("packets_refused", {"packets": 3, "reason": "invalid_signature"}),
        ),
        ("tables", "unknown_key", ("packets_refused", {"packets": 3, "reason": "unknown_key"})),
        ("tables", "key_expired", ("packets_refused", {"packets": 3, "reason": "key_expired"})),
        ("tables", "no_route", ("route_missing", {"prefix": "/elsewhere/x", "interests": 3})),
    ],
)
def test_growing_counters_are_reported_with_their_increase(
    table: str, counter: str, event: object
) -> None:
    def at(value: int) -> NodeCounters:
        tables: dict[str, Any] = {table: {counter: value}}
        return counters(**tables)

    before, after = at(4), at(7)
    assert reported(before, after, after) == [event]


def test_values_of_the_first_reading_are_not_reported() -> None:
    assert reported(counters(tables={"malformed": 9})) == []


def with_link(peer: str, *, silent: bool) -> NodeCounters:
    return counters(links=[LINK | {"peer": peer, "silent": silent}])


def test_the_silence_and_return_of_a_switch_link_are_each_reported_once() -> None:
    up, down = with_link("s1", silent=False), with_link("s1", silent=True)
    assert reported(up, down, down, up) == [
        ("link_silent", {"peer": "s1"}),
        ("link_restored", {"peer": "s1"}),
    ]


def test_a_host_without_a_worker_is_not_reported() -> None:
    assert reported(with_link("h0", silent=False), with_link("h0", silent=True)) == []
