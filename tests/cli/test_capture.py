"""``innet capture``: a file that is whole, however it ends."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from scapy.utils import rdpcap

from .runs import innet, read_until, started


@pytest.mark.usefixtures("registry")
def test_ctrl_c_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    with started("up", "star:2", "--name", "seen", "--broker", "none") as launcher:
        read_until(launcher, "innet down seen")
        refused = innet("capture", "seen", "--at", "h0--h1")
        first = innet("capture", "seen", "--packets", "1", "--output", str(path))
        with started("capture", "seen", "--output", str(path)) as capture:
            assert capture.stderr is not None
            assert "capturing 2 links of seen" in capture.stderr.readline()
            capture.send_signal(signal.SIGINT)
            told = capture.communicate()[1]
        innet("down", "seen")
    assert refused.returncode == 1
    assert "its links are h0--s0, h1--s0" in refused.stderr
    assert first.returncode == 0
    assert capture.returncode == 0
    assert "you ended it" in told
    rdpcap(str(path))


@pytest.mark.usefixtures("registry")
def test_without_a_network_there_is_nothing_to_capture() -> None:
    done = innet("capture")
    assert done.returncode == 1
    assert "no network is up" in done.stderr
