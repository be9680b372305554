"""Packet sockets in the namespaces of a run that root has not started."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from innet.errors import EmulationError
from innet.observe.packets.capture.namespace_sockets import open_packet_sockets

_HOLDER = """
import os, sys
from innet.cluster.emulation.syscalls import CLONE_NEWNET, CLONE_NEWUSER, unshare
unshare(CLONE_NEWUSER)
unshare(CLONE_NEWNET)
print(os.open("/proc/self/ns/net", os.O_RDONLY))
unshare(CLONE_NEWNET)
print(os.open("/proc/self/ns/net", os.O_RDONLY), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def networks() -> Iterator[list[str]]:
    """Paths of two networks of one user namespace, through a process outside of it: ours."""
    with ExitStack() as stack:
        holder = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-c", _HOLDER],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )
        )  # fmt: skip
        assert holder.stdout is not None
        paths = []
        for _ in range(2):
            fd = os.open(f"/proc/{holder.pid}/fd/{int(holder.stdout.readline())}", os.O_RDONLY)
            stack.callback(os.close, fd)
            paths.append(f"/proc/{os.getpid()}/fd/{fd}")
        yield paths


@pytest.mark.netns
def test_several_links_of_a_rootless_run_can_be_watched(networks: list[str]) -> None:
    sockets = open_packet_sockets([(network, "lo") for network in [*networks, networks[0]]])
    try:
        assert [opened.getsockname()[0] for opened in sockets] == ["lo"] * 3
    finally:
        for opened in sockets:
            opened.close()


@pytest.mark.netns
def test_links_that_cannot_be_watched_are_reported(networks: list[str]) -> None:
    with pytest.raises(EmulationError, match=r"captured: /proc/\S+ eth7: No such device\. Capt"):
        open_packet_sockets([(networks[0], "lo"), (networks[1], "eth7")])
    with pytest.raises(EmulationError, match=r"captured: /proc/0/fd/7: No such file"):
        open_packet_sockets([("/proc/0/fd/7", "lo")])
