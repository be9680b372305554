"""``innet demo`` trains with each algorithm as in one process, and needs the core alone."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from .runs import innet

pytestmark = pytest.mark.usefixtures("nothing_is_left")

EXTRAS = ("torch", "sklearn", "matplotlib", "scapy")


def test_each_algorithm_trains_like_one_process_without_extras(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = tmp_path / "absent"
    absent.mkdir()
    for name in EXTRAS:
        (absent / f"{name}.py").write_text(f"raise ImportError('{name} is an extra')")
    monkeypatch.setenv("PYTHONPATH", str(absent))
    into = tmp_path / "results"

    done = innet("demo", "star:3", "--mode", "local", "--epochs", "1", "--output", str(into))

    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if "%" in line]
    assert [row.split("  ")[0].strip() for row in rows] == [
        "single process",
        "in-network",
        "ring",
        "parameter server",
    ]
    assert [row.endswith("yes ") for row in rows] == [False, True, True, True]
    alone, *together = json.loads((into / "comparison.json").read_text())
    for record in together:
        assert record["losses"] == pytest.approx(alone["losses"], rel=1e-3)
        assert record["busiest_link_bytes"] > len(record["losses"]) * record["gradient_bytes"]
    picture = ElementTree.fromstring((into / "comparison.svg").read_text())
    assert len(list(picture.iter("{http://www.w3.org/2000/svg}polyline"))) == len(rows)
    # One text, so that its parts cannot overlap in any font.
    assert "Time in seconds: computing waiting for gradients" in {
        "".join(text.itertext()) for text in picture.iter("{http://www.w3.org/2000/svg}text")
    }
    assert "parameter server</td>" in (into / "comparison.html").read_text()


def test_links_without_a_rate_have_no_bound(tmp_path: Path) -> None:
    options = ["--rate", "unlimited", "--mode", "local", "--epochs", "1"]
    done = innet("demo", "star:2", *options, "--output", str(tmp_path))
    assert done.returncode == 0, done.stderr
    (ring,) = (line.split() for line in done.stdout.splitlines() if line.startswith(" ring"))
    assert ring[3] == "-"
