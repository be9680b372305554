"""Recordings of the watched turns of comparisons."""

from __future__ import annotations

from itertools import pairwise

import pytest

from innet.lab.compare.recording import ComparisonRecorder
from innet.lab.compare.sampling import LinkReading
from innet.observe.web.document import Frame, read_recording
from innet.topology import load_topology

_TOPOLOGY = load_topology("star:2").with_overrides(rate_bps=1e9)


class _Links:
    """Links whose h0→s0 sends 1 MB between readings, 10 ms apart, and holds one packet."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.readings = 0
        monkeypatch.setattr("time.monotonic", lambda: 100 + 0.01 * self.readings)

    async def __call__(self) -> dict[tuple[str, str], LinkReading]:
        self.readings += 1
        return {("h0", "s0"): LinkReading(self.readings * 1_000_000, self.readings, 8000)}


async def _recorded(
    recorder: ComparisonRecorder, links: _Links, name: str, readings: int
) -> list[Frame]:
    before = len(recorder.recording().lines)
    read = recorder.watched(name, links)
    for _ in range(readings):
        await read()
    return [line.frame for line in recorder.recording().lines[before:] if line.frame is not None]


async def test_frames_contain_the_rates_between_readings(monkeypatch):
    recorder = ComparisonRecorder(_TOPOLOGY, "local")
    frames = await _recorded(recorder, _Links(monkeypatch), "ring, 1 MiB", 3)
    picture = recorder.recording().picture
    direction = list(picture.directions()).index(("h0", "s0"))
    assert [frame.time_s for frame in frames] == [0.01, 0.02, 0.07]
    assert frames[0].links.bps[direction] == 8e8
    assert frames[0].links.queue_bytes[direction] == 8000
    assert frames[0].links.drops_per_s[direction] == 100
    assert frames[0].links.bps[direction - 1] is None
    assert set(frames[-1].links.bps) == {0}


async def test_turns_are_recorded_in_order_with_their_names(monkeypatch, tmp_path):
    recorder = ComparisonRecorder(_TOPOLOGY, "local")
    links = _Links(monkeypatch)
    await _recorded(recorder, links, "ring, 1 MiB", 3)
    await _recorded(recorder, links, "tree, 1 MiB", 0)
    await _recorded(recorder, links, "tree, 4 MiB", 2)
    path = tmp_path / "a.innetrec"
    recorder.recording().write(path)
    lines = read_recording(path).lines
    assert [line.event.message for line in lines if line.event is not None] == [
        "ring, 1 MiB", "tree, 1 MiB", "tree, 4 MiB",
    ]  # fmt: skip
    times = [line.time_s for line in lines]
    assert times == sorted(times)


async def test_long_turns_have_fewer_frames_per_second(monkeypatch):
    recorder = ComparisonRecorder(_TOPOLOGY, "local")
    frames = await _recorded(recorder, _Links(monkeypatch), "ring, 1 GiB", 10_000)
    assert 20 <= len(frames) <= 41
    assert frames[-2].time_s > 90
    times = [frame.time_s for frame in frames[:-1]]
    assert len({round(after - before, 3) for before, after in pairwise(times)}) == 1
    assert {frame.links.bps[0] or frame.links.bps[1] for frame in frames[:-1]} == {8e8}
