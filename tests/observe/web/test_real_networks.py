"""Real networks and large ones in a browser; `make web` runs these.

With ``INNET_SCREENSHOTS=DIR`` they save the pictures of docs/live-view.md there.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from innet.cluster.emulation.runs import find_run
from innet.observe.web.document import Frame, Line, LinkFigures, Recording, picture_of
from innet.observe.web.live import recorded_view
from innet.topology import load_topology
from tests.observe.web.browser import browsing, wait_for
from tests.observe.web.pages import served

pytestmark = pytest.mark.web

_INNET = str(Path(sys.executable).with_name("innet"))
_JOB = """
import pathlib, time
import numpy as np, innet
comm = innet.init()
x = np.ones(1 << 18, np.float32)
while True:
    while comm.rank == 5 and pathlib.Path("slow").exists():
        time.sleep(0.05)
    comm.allreduce(x)
"""
_WITHIN_S = 30
"""More than two intervals of telemetry: tests share their machine."""


@pytest.fixture
def network() -> Iterator[tuple[str, str]]:
    """A network with a page: its name, and the link."""
    name = f"web-{uuid.uuid4().hex[:6]}"
    command = [_INNET, "up", "leaf-spine-16", "--rate", "100mbit", "--name", name, "--web"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout is not None
        try:
            for line in launcher.stdout:
                if "open the page: " in line:
                    yield name, line.rpartition(" ")[2].strip()
                    break
            else:
                pytest.fail("the launcher ended without a link")
        finally:
            launcher.send_signal(signal.SIGINT)
            launcher.stdout.close()


def _picture(page: Any, name: str) -> None:
    folder = os.environ.get("INNET_SCREENSHOTS")
    if folder:
        page.screenshot(path=Path(folder) / f"{name}.png")


def _pid(run: str, node: str) -> int:
    return next(p.identity.pid for p in find_run(run).processes if p.node == node)


def test_faults_of_a_real_network_are_seen(network, tmp_path):
    run, link = network
    (tmp_path / "job.py").write_text(_JOB)
    command = [_INNET, "run", "--on", run, "--hosts", "h0-h7", "--", "python", "job.py"]
    with (
        browsing(viewport={"width": 1280, "height": 800}, color_scheme="light") as page,
        subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as job,
    ):
        try:
            page.goto(link)
            wait_for(page, "innet.frame?.links.bps?.some((bps) => bps > 1e6)", 60)
            wait_for(page, "innet.frame.jobs[0]?.groups[0]?.joined === 8", 60)
            _picture(page, "live-view")
            (tmp_path / "slow").touch()
            wait_for(page, "innet.frame.late.has('h5')", _WITHIN_S)
            wait_for(page, "document.querySelector('#jobs').textContent.includes('for h5')")
            _picture(page, "live-view-late")
            (tmp_path / "slow").unlink()
            wait_for(page, "!innet.frame.late.has('h5')", _WITHIN_S)
            worker = psutil.Process(_pid(run, "h3"))
            worker.suspend()
            wait_for(page, "innet.frame.states.h3 === 'stopped'", _WITHIN_S)
            wait_for(
                page, "document.querySelector('#jobs').textContent.includes('for h3')", _WITHIN_S
            )
            page.emulate_media(color_scheme="dark")
            _picture(page, "live-view-stopped")
            worker.resume()
            wait_for(page, "!innet.frame.states.h3", _WITHIN_S)
            psutil.Process(_pid(run, "spine0")).kill()
            lost = "innet.history.events.some((e) => e.kind === 'switch_lost')"
            wait_for(page, lost, _WITHIN_S)
            wait_for(page, "innet.frame.states.spine0 === 'gone'", _WITHIN_S)
            page.emulate_media(color_scheme="light")
            _picture(page, "live-view-dead-spine")
        finally:
            job.send_signal(signal.SIGINT)


def _large(nodes: int) -> Recording:
    leaves = nodes // 31
    topology = load_topology(f"leaf-spine:{leaves}x8x30").with_overrides(rate_bps=1e9)
    picture = picture_of(topology, "large", "sim", virtual_time=True)
    source = random.Random(1)
    frames = []
    for number in range(120):
        bps = tuple(source.random() * 1.05e9 for _ in range(2 * len(picture.links)))
        frames.append(Line(frame=Frame(time_s=number, links=LinkFigures(bps=bps))))
    return Recording(picture, tuple(frames))


def test_a_thousand_nodes_stay_smooth():
    with (
        served(recorded_view(_large(1000))) as site,
        browsing(viewport={"width": 1280, "height": 800}) as page,
    ):
        page.goto(site.link)
        wait_for(page, "innet.history?.frames.length === 120 && innet.network.drawn > 0")
        assert page.evaluate("innet.history.picture.nodes.length") >= 960
        _picture(page, "live-view-1000")
        drawing_ms = page.evaluate("innet.network.measure(30)")
        print(f"a picture of 1,000 nodes takes {drawing_ms:.1f} ms; 30 a second leave 33.3 ms")
        assert drawing_ms > 0
