"""``innet compare``: measures what was asked for, and leaves its results and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from innet.lab.compare.measurement import Comparison

from .runs import innet

pytestmark = pytest.mark.usefixtures("nothing_is_left")


def test_results_are_printed_and_saved(tmp_path: Path) -> None:
    sizes = ["--sizes", "4KiB..32KiB", "--repetitions", "1"]
    methods = ["--algorithms", "inc,ps", "--baseline", "none"]
    done = innet("compare", "star:2", *methods, *sizes, "--output", str(tmp_path))
    assert done.returncode == 0, done.stderr
    comparison = Comparison.load(tmp_path / "comparison.json")
    assert comparison.methods == ["inc", "ps"]
    assert comparison.sizes_bytes == [4 << 10, 16 << 10, 32 << 10]
    for text in ("median", "inc", str(tmp_path / "comparison.json"), str(tmp_path / "report.html")):
        assert text in done.stdout
    assert (tmp_path / "report.html").read_text().startswith("<!")
