"""``innet capture``: a file that is whole, however it ends."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from scapy.utils import rdpcap

from .runs import innet, invoked, read_until, started

_MAKES_USER_NAMESPACES = """
import innet._native._core
from innet.cluster.emulation.syscalls import CLONE_NEWUSER, unshare
unshare(CLONE_NEWUSER)
"""


@pytest.mark.usefixtures("registry")
def test_ctrl_c_leaves_a_complete_file(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    with started("up", "star:2", "--name", "seen", "--broker", "none") as launcher:
        read_until(launcher, "innet down seen")
        refused = invoked("capture", "seen", "--at", "h0--h1")
        first = invoked("capture", "seen", "--packets", "1", "--output", str(path))
        with started("capture", "seen", "--output", str(path)) as capture:
            assert capture.stderr is not None
            assert "capturing 2 links of seen" in capture.stderr.readline()
            capture.send_signal(signal.SIGINT)
            told = capture.communicate()[1]
        invoked("down", "seen")
    assert refused.returncode == 1
    assert "its links are h0--s0, h1--s0" in refused.stderr
    assert first.returncode == 0
    assert capture.returncode == 0
    assert "interrupted" in told
    rdpcap(str(path))


@pytest.fixture
def ordinary_user() -> int | None:
    """Somebody without root's rights; ``None``: who runs this test is one."""
    if os.geteuid() != 0:
        return None
    user = pwd.getpwnam("nobody").pw_uid
    probe = [sys.executable, "-c", _MAKES_USER_NAMESPACES]
    try:
        subprocess.run(probe, capture_output=True, text=True, user=user, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        why = getattr(error, "stderr", "").strip().splitlines()[-1:] or [str(error)]
        pytest.skip(f"user {user} cannot run innet with this Python, or no namespaces: {why[0]}")
    return user


@pytest.fixture
def own_directory(ordinary_user: int | None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The environment of that user, with a registry of runs."""
    with tempfile.TemporaryDirectory(prefix="innet-test-") as directory:
        if ordinary_user is not None:
            os.chown(directory, ordinary_user, -1)
        monkeypatch.setenv("XDG_RUNTIME_DIR", directory)
        yield Path(directory)


@pytest.mark.netns
def test_the_user_of_a_rootless_run_can_capture_its_links(
    ordinary_user: int | None, own_directory: Path
) -> None:
    path = own_directory / "a.pcapng"
    up = ("up", "star:2", "--mode", "netns", "--name", "seen", "--broker", "none")
    with started(*up, user=ordinary_user) as launcher:
        read_until(launcher, "innet down seen")
        captured = innet(
            "capture", "seen", "--packets", "3", "--output", str(path), user=ordinary_user
        )
        innet("down", "seen", user=ordinary_user)
    assert captured.returncode == 0, captured.stderr
    assert len(rdpcap(str(path))) == 3


@pytest.mark.usefixtures("registry")
def test_a_capture_without_a_network_is_refused() -> None:
    done = invoked("capture")
    assert done.returncode == 1
    assert "no network is up" in done.stderr
