"""The records of processes become a well-formed trace, even when some are unfinished."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.errors import EmulationError
from innet.telemetry.trace.job_trace import trace_file
from innet.telemetry.trace.merge import merge_traces
from innet.telemetry.trace.recorder import (
    OperationBegin,
    OperationEnd,
    Span,
    TracedProcess,
    TraceRecord,
)


def begin(operation: int, called_ns: int) -> OperationBegin:
    return OperationBegin(
        operation=operation, name="op", category="collective", called_ns=called_ns, details={}
    )


def merged(directory: Path, records: list[TraceRecord], tail: str = "") -> list[dict[str, Any]]:
    lines = "".join(record.model_dump_json() + "\n" for record in records)
    (directory / "rank-0.jsonl").write_text(lines + tail)
    merge_traces(directory, directory / "trace.json")
    events: list[dict[str, Any]] = json.loads((directory / "trace.json").read_text())["traceEvents"]
    return [event for event in events if event["ph"] == "X"]


SOURCE = TracedProcess(label="rank 0 (h0)", sort_index=0)


def test_operations_of_a_killed_process_are_shown_as_unfinished(tmp_path):
    span = Span(name="backward", category="backward", thread=1, began_ns=5000, ended_ns=9000)
    events = merged(tmp_path, [SOURCE, begin(1, 2000), span], tail='{"kind":"end","opera')
    operation = next(event for event in events if event["name"] == "op")
    assert operation["args"] == {"unfinished": True}
    assert (operation["ts"], operation["dur"]) == (0.0, 7.0)


def test_the_stages_of_an_operation_fill_it(tmp_path):
    end = OperationEnd(operation=1, started_ns=3000, first_segment_ns=7000, ended_ns=8000)
    events = merged(tmp_path, [SOURCE, begin(1, 2000), end])
    assert [(event["name"], event["ts"], event["dur"]) for event in events] == [
        ("op", 0.0, 6.0),
        ("queued", 0.0, 1.0),
        ("first segment", 1.0, 4.0),
        ("transfer", 5.0, 1.0),
    ]


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), max_size=30))
def test_operations_that_overlap_are_on_different_tracks(tmp_path_factory, calls):
    records: list[TraceRecord] = [SOURCE]
    for number, (called_ns, duration_ns) in enumerate(calls):
        end_ns = called_ns + duration_ns
        records.append(begin(number, called_ns))
        records.append(
            OperationEnd(operation=number, started_ns=None, first_segment_ns=None, ended_ns=end_ns)
        )
    events = [
        event
        for event in merged(tmp_path_factory.mktemp("trace"), records)
        if event["cat"] == "collective"
    ]
    assert len(events) == len(calls)
    for event in events:
        for other in events:
            if event is not other and event["tid"] == other["tid"]:
                apart = 1e-9 + other["ts"] >= event["ts"] + event["dur"]
                assert apart or 1e-9 + event["ts"] >= other["ts"] + other["dur"]


def test_a_trace_path_can_be_a_directory(tmp_path):
    assert trace_file(tmp_path, "lab") == tmp_path / "trace-lab.json"
    assert trace_file(tmp_path / "mine.json", "lab") == tmp_path / "mine.json"
    with pytest.raises(EmulationError, match="nowhere is no directory"):
        trace_file(tmp_path / "nowhere" / "mine.json", "lab")
