"""What a node lets the kernel keep for its links."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from innet.node import open_node
from innet.node.node_config import FaceConfig, LinkShape, NodeConfig, SocketChannel
from innet.security.key_dealer import KeyDealer
from innet.settings import Settings

QUEUE_BYTES = 512 * 1024
MESSAGE_BYTES = 64 * 1024
"""The largest message, which may exceed the buffer that it begins in."""


def _face(link: socket.socket, peer: str) -> FaceConfig:
    channel = SocketChannel(fd=link.fileno(), inode=os.fstat(link.fileno()).st_ino)
    shape = LinkShape(rate_bps=None, delay_s=0, loss=0, queue_bytes=0, mark_bytes=None)
    return FaceConfig(
        peer=peer, peer_kind="host", channel=channel, mtu_bytes=1472, queue_bytes=QUEUE_BYTES,
        shape=shape,
    )  # fmt: skip


@pytest.mark.parametrize("links", [1, 2, 4])
def test_packets_waiting_for_memory_links_fit_their_queue(tmp_path: Path, links: int) -> None:
    with ExitStack() as stack:
        sockets = []
        for _ in range(links):
            link = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            link.bind(("127.0.0.1", 0))
            link.connect(link.getsockname())
            sockets.append(link)
        faces = tuple(_face(link, f"h{number}") for number, link in enumerate(sockets))
        config = NodeConfig(
            run_id="r", node="s0", kind="switch", mode="cluster", run_dir=tmp_path, faces=faces,
            routes=(), slots=8, cache_bytes=0, cache_policy="lru", control_socket=tmp_path / "c",
            ndn_socket=tmp_path / "n", seed=1, ip_address=None,
        )  # fmt: skip
        keys = KeyDealer(["s0"], "digest").switches["s0"]
        stack.callback(open_node(config, Settings(), keys).stop, "the test ended")
        buffers_bytes = [link.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) for link in sockets]
    assert sum(buffers_bytes) + links * MESSAGE_BYTES <= QUEUE_BYTES
