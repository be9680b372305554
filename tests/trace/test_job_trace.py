"""Timelines of real jobs: complete, well-formed, and showing what overlaps."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

Event = dict[str, Any]

ROUNDING_US = 1e-3


def load(path: Path) -> list[Event]:
    document = json.loads(path.read_text())
    events: list[Event] = document["traceEvents"]
    return events


def processes(events: list[Event]) -> dict[str, int]:
    return {e["args"]["name"]: e["pid"] for e in events if e["name"] == "process_name"}


def spans(events: list[Event], pid: int, category: str) -> list[Event]:
    return [e for e in events if e["ph"] == "X" and e["pid"] == pid and e["cat"] == category]


def end(span: Event) -> float:
    return float(span["ts"] + span["dur"])


def check_well_formed(events: list[Event]) -> None:
    tracks: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in events:
        assert {"ph", "name", "pid", "tid"} <= event.keys()
        if event["ph"] != "M":
            assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0
            tracks[event["pid"], event["tid"]].append(event)
    for track in tracks.values():
        open_spans: list[Event] = []
        for span in sorted(track, key=lambda s: (s["ts"], -s["dur"])):
            while open_spans and end(open_spans[-1]) <= span["ts"] + ROUNDING_US:
                open_spans.pop()
            if open_spans:
                assert end(span) <= end(open_spans[-1]) + ROUNDING_US, "spans of a track overlap"
            open_spans.append(span)


@pytest.mark.torch
def test_buckets_of_a_model_are_reduced_while_its_backward_pass_goes_on(run_job, tmp_path):
    file = tmp_path / "trace.json"
    result = run_job("training.py", topology="star:2", trace=file)
    assert result.failure == ""
    assert list(tmp_path.iterdir()) == [file], "something beside the trace was left"
    events = load(file)
    check_well_formed(events)
    pids = processes(events)
    assert {"rank 0 (h0)", "rank 1 (h1)", "switch s0"} == pids.keys()
    for rank in range(2):
        pid = pids[f"rank {rank} (h{rank})"]
        assert len(spans(events, pid, "optimizer")) == 2
        # The second step: DDP makes its buckets in the first.
        backward = spans(events, pid, "backward")[1]
        reductions = [
            span
            for span in spans(events, pid, "collective")
            if span["name"].startswith("allreduce") and backward["ts"] < span["ts"] < end(backward)
        ]
        assert len(reductions) == 8
        assert all(span["args"]["algorithm"] == "inc" for span in reductions)
        assert reductions[0]["args"]["bytes"] == 257 * 256 * 4
    counted = {e["name"] for e in events if e["ph"] == "C" and e["pid"] == pids["switch s0"]}
    assert {"slots in use", "sent Mbit/s"} <= counted


def test_a_job_that_fails_leaves_a_trace_of_all_ranks(run_job, tmp_path):
    result = run_job("dies.py", topology="star:3", trace=tmp_path / "trace.json")
    assert "SIGKILL" in result.failure
    events = load(tmp_path / "trace.json")
    check_well_formed(events)
    pids = processes(events)
    for rank in range(3):
        assert spans(events, pids[f"rank {rank} (h{rank})"], "collective")
    for rank in (0, 2):
        names = [e["name"] for e in spans(events, pids[f"rank {rank} (h{rank})"], "collective")]
        assert names[-1].startswith("barrier")
