"""Recordings of simulations for the live view."""

from __future__ import annotations

import pytest

from innet.lab.experiment.run import run_task
from innet.lab.experiment.sweep import RunOptions, make_tasks, with_recordings
from innet.lab.workload import load_workload
from innet.observe.web.document import read_recording
from innet.settings import Settings
from innet.topology import load_topology

_EVENTS = """
name: faults
jobs:
  sums: {kind: collective, operation: allreduce, size: 4MiB, repetitions: 3}
events:
  - {kind: link-down, link: h1 -- s0, at: 10ms, for: 20ms}
  - {kind: crash, node: s0, at: 60ms, for: 10ms}
"""


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recordings")
    (folder / "faults.yaml").write_text(_EVENTS)
    topology = load_topology("star4").with_overrides(rate_bps=1e9, delay_s=1e-5)
    tasks = make_tasks(
        topology,
        load_workload(str(folder / "faults.yaml")),
        algorithms=["inc"],
        seeds=[1],
        options=RunOptions(Settings()),
    )
    (task,) = with_recordings(tasks, folder / "a.innetrec")
    run_task(task)
    return read_recording(folder / "a.innetrec")


def test_the_recorded_traffic_is_what_the_operations_need(recording):
    frames = [line.frame for line in recording.lines if line.frame]
    most = max(bps or 0 for frame in frames for bps in frame.links.bps)
    assert 0.5e9 < most <= 1.2e9
    assert recording.picture.virtual_time


def test_faults_are_recorded_in_frames_and_events(recording):
    frames = [line.frame for line in recording.lines if line.frame]
    assert any(frame.cut for frame in frames)
    assert any(frame.states.get("s0") == "lost" for frame in frames)
    assert not frames[0].cut
    texts = [line.event.message for line in recording.lines if line.event]
    assert any("down" in text for text in texts)
    assert any("crashed" in text for text in texts)


def test_lines_are_ordered_by_time(recording):
    times = [line.time_s for line in recording.lines]
    assert times == sorted(times)
    assert len([line for line in recording.lines if line.frame]) <= 400
