"""``innet compare``: measures the given methods and sizes, and leaves only its results."""

from __future__ import annotations

from pathlib import Path

import pytest

from innet.lab.compare.measurement import Comparison
from innet.observe.web.document import read_recording

from .runs import innet

pytestmark = pytest.mark.usefixtures("nothing_is_left")


def test_results_are_printed_and_saved(tmp_path: Path) -> None:
    sizes = ["--sizes", "4KiB..32KiB", "--repetitions", "1"]
    methods = ["--algorithms", "inc,ps", "--baseline", "none"]
    hosts = ["--workers-per-host", "2", "--memory-rate", "100gbit"]
    done = innet("compare", "star:2", *hosts, *methods, *sizes, "--output", str(tmp_path))
    assert done.returncode == 0, done.stderr
    comparison = Comparison.load(tmp_path / "comparison.json")
    assert comparison.methods == ["inc", "ps"]
    assert comparison.hosts == 4
    assert comparison.sizes_bytes == [4 << 10, 16 << 10, 32 << 10]
    for text in ("median", "inc", str(tmp_path / "comparison.json"), str(tmp_path / "report.html")):
        assert text in done.stdout
    report = (tmp_path / "report.html").read_text()
    assert report.startswith("<!")
    assert 'href="recording.innetrec"' in report
    assert f"innet watch {tmp_path}/recording.innetrec --web" in done.stdout
    events = [
        e for line in read_recording(tmp_path / "recording.innetrec").lines if (e := line.event)
    ]
    assert len(events) == 6
