"""Recordings, the history of a server, and where nodes are drawn."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.errors import TelemetryError
from innet.observe.web.document import (
    EventLine,
    Frame,
    Line,
    Recording,
    picture_of,
    read_recording,
    topology_of_neighbours,
)
from innet.observe.web.layout import positions
from innet.observe.web.live import History
from innet.topology import load_topology

_DOCS = Path(__file__).parents[3] / "docs"


def _frame(time_s: float) -> Line:
    return Line(frame=Frame(time_s=time_s))


def test_a_recording_round_trips(tmp_path):
    event = EventLine(time_s=2, source="h0", kind="peer_lost", message="\n<b>&", alarming=True)
    picture = picture_of(load_topology("star4"), "lab", "local")
    written = Recording(picture, (_frame(1), Line(event=event)))
    path = tmp_path / "a.innetrec"
    written.write(path)
    assert read_recording(path) == written
    assert len(path.read_text().splitlines()) == 3


def test_the_recording_of_the_docs_shows_what_the_page_describes():
    lines = read_recording(_DOCS / "images" / "live-view.innetrec").lines
    frames = [line.frame for line in lines if line.frame is not None]
    assert any("h5" in frame.late for frame in frames)
    assert any(frame.states.get("h3") == "stopped" for frame in frames)
    assert any(frame.states.get("spine0") == "lost" for frame in frames)
    assert any(line.event.kind == "switch_lost" for line in lines if line.event is not None)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no recording of innet"),
        ("[1]", "no recording of innet"),
        ("\x80", "no recording of innet"),
        ('{"format": "innet recording", "version": 9}', "version 9"),
        ('{"format": "innet recording", "version": 1}', "damaged in line 1"),
    ],
)
def test_other_files_are_refused_with_the_reason(tmp_path, text, says):
    path = tmp_path / "a.innetrec"
    path.write_text(text)
    with pytest.raises(TelemetryError, match=says):
        read_recording(path)


def test_a_damaged_recording_is_refused_with_the_line(tmp_path):
    path = tmp_path / "a.innetrec"
    picture = picture_of(load_topology("star4"), "lab", "local").model_dump_json()
    path.write_text(f'{picture}\n{_frame(1).as_json()}\n{{"frame": {{}}}}\n')
    with pytest.raises(TelemetryError, match="damaged in line 3"):
        read_recording(path)


def test_a_link_to_no_node_is_refused(tmp_path):
    path = tmp_path / "a.innetrec"
    picture = json.loads(picture_of(load_topology("star4"), "lab", "local").model_dump_json())
    picture["links"][0]["b"] = 99
    path.write_text(json.dumps(picture))
    with pytest.raises(TelemetryError, match="not in the list of nodes"):
        read_recording(path)


@given(
    steps=st.lists(st.floats(0, 50), max_size=60),
    kept_bytes=st.integers(1, 2000),
    most=st.integers(1, 7),
)
def test_a_reader_of_the_history_receives_everything_kept(steps, kept_bytes, most):
    history, time_s, seen, number = History(100, kept_bytes), 0.0, [], 0
    for step in steps:
        time_s += step
        history.append(_frame(time_s))
        number, texts = history.since(number, most)
        seen += texts
        assert len(texts) <= most
    while (answer := history.since(number, most))[1]:
        number = answer[0]
        seen += answer[1]
    assert number == history.end == len(steps)
    assert len(seen) == len(steps)
    _, kept = history.since(0, 1000)
    assert kept == seen[len(seen) - len(kept) :]
    assert all(json.loads(text)["frame"]["time_s"] >= time_s - 100 for text in kept[:-1])


def test_a_number_of_another_server_reads_from_the_oldest_on():
    history = History()
    history.append(_frame(1))
    assert history.since(77, 10)[0] == 1
    assert len(history.since(77, 10)[1]) == 1


@pytest.mark.parametrize(
    "name", ["star4", "leaf-spine-16", "fat-tree-4", "wan", "dumbbell-8", "star:200", "fat-tree:8"]
)
def test_no_two_nodes_are_drawn_at_one_place(name):
    topology = load_topology(name)
    places = positions(topology)
    assert set(places) == set(topology.nodes)
    rounded = {(round(x, 1), round(y, 1)) for x, y in places.values()}
    assert len(rounded) == len(places)


def test_tiers_are_above_each_other():
    places = positions(load_topology("fat-tree-4"))
    heights = [places[name][1] for name in ("core0", "agg0", "edge0", "h0")]
    assert heights == sorted(heights)


def test_a_topology_is_built_from_the_reports_of_nodes():
    neighbours = [("s0", "h0"), ("h0", "s0"), ("s0", "h1"), ("s0", "s1")]
    topology = topology_of_neighbours("far", {"s0": "switch", "s1": "switch"}, neighbours)
    assert topology.switches == ("s0", "s1")
    assert topology.hosts == ("h0", "h1")
    assert len(topology.links) == 3


_PICTURE = b'{"format": "innet recording", "version": 1, "run": "a", "topology": "b", "mode": "c", '
_EMPTY = _PICTURE + b'"nodes": [], "links": []}'
_SIZE = 24 << 20
_NESTED = b"[" * 200_000


def _filled(begin: bytes, part: bytes, end: bytes) -> bytes:
    return begin + part * ((_SIZE - len(begin) - len(end)) // len(part)) + end


@pytest.mark.parametrize(
    "content",
    [
        _filled(_EMPTY + b"\n", b"{}\n", b""),
        _filled(_EMPTY + b"\n", b'{"frame":{"time_s":1}}\n', b""),
        _filled(_EMPTY + b'\n{"frame":{"time_s":1,"waits":[', b"{},", b"{}]}}"),
        _filled(_EMPTY + b'\n{"frame":{"time_s":1,"x":[', b"[],", b"[]]}}"),
        _filled(_EMPTY + b'\n{"frame":{"time_s":1,"cut":[', b"0,", b"0]}}"),
        _filled(_EMPTY + b'\n{"event":', b'{"a":', b""),
        _filled(_PICTURE + b'"nodes": [', b"{},", b"{}]}"),
        _filled(_EMPTY + b"\n", b"x", b""),
        _filled(b"", b"x", b""),
        _NESTED,
        _EMPTY + b"\n" + _NESTED,
        _EMPTY + b"\n" + b'{"frame":{"time_s":1e999}}',
        _EMPTY + b"\n" + b'{"frame":{"time_s":NaN}}',
    ],
    ids=[
        *("lines", "frames", "waits", "lists", "figures", "deep", "nodes", "text", "other"),
        *("nested", "nested-line", "infinite", "nan"),
    ],
)
def test_a_crafted_recording_takes_memory_of_its_own_size(tmp_path, content):
    path = tmp_path / "a.innetrec"
    path.write_bytes(content)
    del content
    measured = subprocess.run(
        [sys.executable, "-c", _MEASURE, str(path)], capture_output=True, text=True, check=False
    )
    assert measured.returncode == 0, measured.stderr
    refused, grown_bytes = measured.stdout.split("\n")[:2]
    assert "damaged" in refused or "no recording" in refused or "more than" in refused
    assert int(grown_bytes) < 10 * _SIZE


def test_a_large_recording_is_read_in_memory_of_its_size(tmp_path):
    path = tmp_path / "a.innetrec"
    figures = ",".join(["0.1234"] * 1000)
    line = f'{{"frame":{{"time_s":1,"nodes":{{"cpu":[{figures}],"pending":[{figures}]}}}}}}\n'
    with path.open("wb") as file:
        file.write(_EMPTY + b"\n")
        for _ in range(_SIZE // len(line)):
            file.write(line.encode())
    measured = subprocess.run(
        [sys.executable, "-c", _MEASURE, str(path)], capture_output=True, text=True, check=False
    )
    assert measured.stdout.startswith("read\n"), measured
    assert int(measured.stdout.split("\n")[1]) < 4 * _SIZE


_MEASURE = """
import resource, sys
from pathlib import Path
from innet.errors import TelemetryError
from innet.observe.web.document import read_recording
from innet.observe.web.live import recorded_view
def peak():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = peak()
try:
    recorded_view(read_recording(Path(sys.argv[1])))
    print("read")
except TelemetryError as error:
    print(error)
print(peak() - before)
"""
