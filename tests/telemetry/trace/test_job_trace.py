"""Timelines of real jobs: complete, well-formed, and showing what overlaps."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from innet.telemetry.trace.job_trace import SwitchSampler

Event = dict[str, Any]

APPS = Path(__file__).parents[3] / "apps"
DIES = Path(__file__).parent / "workers" / "dies.py"
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


def check_all_ended(events: list[Event]) -> None:
    assert not [event for event in events if event.get("args", {}).get("unfinished")]


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


def within(inner: Event, outer: Event) -> bool:
    return bool(outer["ts"] < inner["ts"] and inner["ts"] < end(outer))


@pytest.mark.slow
@pytest.mark.jobs
@pytest.mark.torch
def test_a_trace_shows_communication_overlapping_with_computation(run_job, tmp_path, monkeypatch):
    file = tmp_path / "trace.json"
    monkeypatch.setenv("PYTHONPATH", str(APPS))
    result = run_job("training.py", topology="star:2", trace=file)
    assert result.failure == ""
    assert list(tmp_path.iterdir()) == [file], "something beside the trace was left"
    events = load(file)
    check_well_formed(events)
    check_all_ended(events)
    pids = processes(events)
    assert {"rank 0 (h0)", "rank 1 (h1)", "switch s0"} == pids.keys()
    for rank in range(2):
        pid = pids[f"rank {rank} (h{rank})"]
        assert len(spans(events, pid, "optimizer")) == 4
        check_buckets(events, pid)
        check_prefetch(events, pid)
    counted = {e["name"] for e in events if e["ph"] == "C" and e["pid"] == pids["switch s0"]}
    assert {"slots in use", "sent Mbit/s"} <= counted


def check_buckets(events: list[Event], pid: int) -> None:
    """DistributedDataParallel reduces a bucket while backward goes on for others."""
    backward = spans(events, pid, "backward")[1]  # it makes its buckets in the first step
    reductions = [
        span
        for span in spans(events, pid, "collective")
        if span["name"].startswith("allreduce") and within(span, backward)
    ]
    assert len(reductions) == 8
    assert all(span["args"]["algorithm"] == "inc" for span in reductions)
    assert reductions[0]["args"]["bytes"] == 257 * 256 * 4


def check_prefetch(events: list[Event], pid: int) -> None:
    """FSDP2 gathers a layer while the layer before it is computed."""
    modules = spans(events, pid, "forward")
    whole = [span for span in modules if span["name"] == "forward FSDPSequential"][1]
    layers = [span for span in modules if span["name"] == "FSDPLinear" and within(span, whole)]
    gathers = [
        span
        for span in spans(events, pid, "collective")
        if span["name"].startswith("allgather") and within(span, whole)
    ]
    assert len(layers) == len(gathers) == 8
    for layer, following in zip(layers, gathers[1:], strict=False):
        assert following["ts"] < end(layer)


def test_a_failed_job_leaves_a_trace_of_all_ranks_and_names_the_file(tmp_path):
    command = [sys.executable, "-m", "innet", "run", "star:3", "--trace", str(tmp_path)]
    done = subprocess.run(
        [*command, "--", sys.executable, str(DIES)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 128 + signal.SIGKILL
    (file,) = tmp_path.iterdir()
    assert f"timeline: {file}" in done.stderr
    events = load(file)
    check_well_formed(events)
    pids = processes(events)
    for rank in range(3):
        assert spans(events, pids[f"rank {rank} (h{rank})"], "collective")
    for rank in (0, 2):
        names = [e["name"] for e in spans(events, pids[f"rank {rank} (h{rank})"], "collective")]
        assert names[-1].startswith("barrier")


def test_a_job_continues_when_a_trace_cannot_be_written(run_job, tmp_path):
    result = run_job("full_disk.py", topology="star:2", trace=tmp_path / "trace.json")
    assert result.failure == ""
    assert "done" in result.said("h1")
    assert "the trace of this process ends here, the job goes on" in result.said("h1")
    events = load(tmp_path / "trace.json")
    ranks = processes(events)
    assert len(spans(events, ranks["rank 0 (h0)"], "collective")) == 50


def test_a_file_that_cannot_be_written_ends_the_sampling_with_a_warning(tmp_path: Path, caplog):
    async def read_status() -> dict[str, dict[str, Any]]:
        node = {"cache_bytes": 0, "pit_entries": 0}
        return {"s0": {"kind": "switch", "links": [], "reducer": {"slots_in_use": 0}, "node": node}}

    asyncio.run(SwitchSampler(tmp_path / "is not there", read_status).run())
    assert "the trace of the switches ends here, the job goes on" in caplog.text
