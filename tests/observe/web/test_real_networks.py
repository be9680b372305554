"""Real networks and large ones in a browser; `make web` runs these.

With ``INNET_SCREENSHOTS=DIR`` they save the pictures and the recording of docs/live-view.md there.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psutil
import pytest

from innet.cluster.emulation.runs import find_run
from innet.cluster.run_broker import broker_of
from innet.observe.web.document import Frame, Line, LinkFigures, Recording, picture_of
from innet.observe.web.live import recorded_view
from innet.telemetry.topics import node_topics
from innet.topology import load_topology
from tests.faults.links import set_link
from tests.observe.web.browser import MainThread, browsing, wait_for
from tests.observe.web.pages import served

pytestmark = pytest.mark.web

_INNET = str(Path(sys.executable).with_name("innet"))
_SCREENSHOTS = os.environ.get("INNET_SCREENSHOTS")
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


@dataclass(frozen=True)
class _Site:
    """A network with a page and a job on eight of its hosts."""

    run: str
    page: Any
    slow: Path
    """While this file exists, the worker of h5 computes longer."""

    def pid(self, node: str) -> int:
        """The process of a node."""
        return next(p.identity.pid for p in find_run(self.run).processes if p.node == node)

    def shows(self, condition: str, action: Callable[[], object], words: Mapping[str, str]) -> None:
        """Do something, and expect the page to show it within two intervals of telemetry.

        An interval has passed when a node that nothing happens to has published its counters again.

        Args:
            condition: an expression of the page.
            words: what parts of the page say, by their identities.
        """
        with _Intervals(self.run, "leaf1") as intervals:
            action()
            began = intervals.passed
            wait_for(self.page, condition, 60)
            for part, text in words.items():
                wait_for(
                    self.page, f"document.querySelector('#{part}').innerText.includes('{text}')"
                )
            passed = intervals.passed - began
        print(f"{condition}: {passed} intervals of telemetry")
        assert passed <= 2

    def passes(self, condition: str) -> None:
        """Wait until what was shown is over."""
        wait_for(self.page, condition, 60)


class _Intervals:
    """Counts how often a node has published its counters."""

    def __init__(self, run: str, node: str) -> None:
        self.passed = 0
        self._topic = node_topics(run, node).counters
        self._broker = broker_of(find_run(run))
        self._listens = threading.Event()
        self._loop = asyncio.new_event_loop()

    async def _count(self) -> None:
        async with self._broker.client() as client:
            await client.subscribe(self._topic)
            async for message in client.messages:
                # The first is the retained one.
                self.passed += not message.retain
                self._listens.set()

    def __enter__(self) -> Self:
        self._task = self._loop.create_task(self._count())
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._listens.wait(60)
        return self

    def _run(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._task)

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()
        self._loop.close()


@contextlib.contextmanager
def _network(*options: str) -> Iterator[tuple[str, str]]:
    """A network with a page: its name, and the link."""
    name = "lab" if _SCREENSHOTS else f"web-{uuid.uuid4().hex[:6]}"
    command = [_INNET, "up", "leaf-spine-16", "--rate", "100mbit", "--name", name, "--web"]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as launcher:
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


@contextlib.contextmanager
def _site(folder: Path, *options: str) -> Iterator[_Site]:
    (folder / "job.py").write_text(_JOB)
    with (
        _network(*options) as (run, link),
        browsing(viewport={"width": 1280, "height": 800}, color_scheme="light") as page,
        subprocess.Popen(
            [_INNET, "run", "--on", run, "--hosts", "h0-h7", "--", "python", "job.py"],
            cwd=folder,
            stderr=subprocess.DEVNULL,
        ) as job,
    ):
        try:
            page.goto(link)
            wait_for(page, "innet.frame?.links.bps?.some((bps) => bps > 1e6)", 60)
            wait_for(page, "innet.frame.jobs[0]?.groups[0]?.joined === 8", 60)
            yield _Site(run, page, folder / "slow")
        finally:
            job.send_signal(signal.SIGINT)


def _picture(page: Any, name: str) -> None:
    if _SCREENSHOTS:
        page.screenshot(path=Path(_SCREENSHOTS) / f"{name}.png")


def test_faults_of_a_real_network_are_seen_within_two_intervals(tmp_path):
    with _site(tmp_path) as site:
        page = site.page
        site.shows("innet.frame.late.has('h5')", site.slow.touch, {"jobs": "for h5"})
        _picture(page, "live-view-late")
        site.slow.unlink()
        site.passes("!innet.frame.late.has('h5')")
        worker = psutil.Process(site.pid("h3"))
        site.shows(
            "innet.frame.states.h3 === 'stopped'",
            worker.suspend,
            {"jobs": "h3 stopped", "findings": "h3"},
        )
        page.emulate_media(color_scheme="dark")
        _picture(page, "live-view-stopped")
        worker.resume()
        site.passes("!innet.frame.states.h3 && innet.frame.cut.size === 0")
        page.emulate_media(color_scheme="light")
        spine = psutil.Process(site.pid("spine0"))
        site.shows(
            "['restarting', 'restarted'].includes(innet.frame.states.spine0)",
            spine.kill,
            {
                "findings": "spine0 was killed by signal 9",
                "events": "the network routes round spine0",
            },
        )
        _picture(page, "live-view-dead-spine")
        _export(page)


def _export(page: Any) -> None:
    """Save the recording of docs/live-view.md."""
    if _SCREENSHOTS:
        with page.expect_download() as download:
            page.click("#export")
        download.value.save_as(Path(_SCREENSHOTS) / "live-view.innetrec")


@pytest.mark.netns
@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("nsenter") is None or shutil.which("ip") is None,
    reason="cutting a link with the kernel's tools needs root, ip and nsenter",
)
def test_a_link_cut_with_the_kernels_tools_is_seen_within_two_intervals(tmp_path):
    with _site(tmp_path, "--mode", "netns") as site:
        topology = load_topology(str(find_run(site.run).topology_path))
        number, cut = next(
            (number, link)
            for number, link in enumerate(topology.links)
            if set(link.nodes) == {"leaf0", "spine1"}
        )
        site.shows(
            f"innet.frame.cut.has({number})",
            lambda: set_link(site.run, cut.a.node, cut.a.port, "down"),
            {"findings": f"The link {cut.a.node}--{cut.b.node} carries no packets"},
        )
        _picture(site.page, "live-view-cut")
        set_link(site.run, cut.a.node, cut.a.port, "up")
        site.passes("innet.frame.cut.size === 0")


_PLAY = """
new Promise((done) => {
  const began = performance.now();
  const before = innet.network.drawn;
  let [shown, changes] = [innet.frame, 0];
  document.getElementById("pause").click();
  const look = () => {
    if (innet.frame !== shown) [shown, changes] = [innet.frame, changes + 1];
    if (innet.frame.time < innet.history.last) requestAnimationFrame(look);
    else done([(performance.now() - began) / 1000, changes, innet.network.drawn - before]);
  };
  requestAnimationFrame(look);
})"""
"""Plays the recording; the time, the frames shown, and how often the network was drawn."""


_PICTURES = 30
_LINES = """
(() => {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [900, 500];
  const c = canvas.getContext("2d");
  for (let i = 0; i < 100000; i += 1) {
    c.beginPath();
    c.moveTo((7 * i) % 900, (3 * i) % 500);
    c.lineTo((7 * i) % 900 + 20, (3 * i) % 500 + 10);
    c.stroke();
  }
  c.getImageData(0, 0, 1, 1);
})()"""
"""Draws 100,000 short lines: what the browser and the machine can do at the moment.

Processor time leaves out what other programs take, but not that they slow a processor down.
"""
_MOST_OF_LINES = 0.45


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
        thread = MainThread(page)
        before_s = thread.used_s()
        page.evaluate(_LINES)
        lines_s = thread.used_s() - before_s
        page.evaluate(f"innet.network.measure({_PICTURES})")
        picture_s = (thread.used_s() - before_s - lines_s) / _PICTURES
        before_s = thread.used_s()
        played_s, changes, pictures = page.evaluate(_PLAY)
        playing_s = (thread.used_s() - before_s) / pictures
    print(
        f"a picture of 1,000 nodes takes {1e3 * picture_s:.1f} ms of processor time, and with all "
        f"else in the page {1e3 * playing_s:.1f} ms while it plays; 30 a second leave 33.3 ms, "
        f"and 100,000 lines take {1e3 * lines_s:.1f} ms. It played {pictures / played_s:.1f} "
        f"pictures/s, {changes / played_s:.1f} of another moment"
    )
    assert picture_s < _MOST_OF_LINES * lines_s
    assert playing_s < _MOST_OF_LINES * lines_s
