"""Registered memory that NIXL writes and reads, as a block store of ``kv_store.py``.

It shows what NIXL's UCX back end would add to a pool: nobody names, signs or admits the blocks. The
client knows where each block lies, so a put or get is one transfer. With digests, it hashes blocks
before a put and after a get, as a getter has to that verifies bytes which NIXL has moved.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import pickle
import socket
from collections.abc import Sequence
from ipaddress import ip_address
from selectors import EVENT_READ, DefaultSelector
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from innet.errors import KVError
from shared.block_work import Blocks

if TYPE_CHECKING:
    from nixl._api import nixl_agent

_MEMORY: Final = "memory"
_BEGIN: Final = b"+"
_END: Final = b"-"


def hold_nixl_memory(own: str, port: str, offered_bytes: str) -> None:
    """Register memory, tell clients where it is, and move data while one of them asks for that.

    A thread of NIXL would do so all the time: it keeps a processor busy, also when nobody puts or
    gets, and other stores take turns with this one.
    """
    agent = _agent(_MEMORY, own)
    memory = np.zeros(int(offered_bytes), np.uint8)
    agent.register_memory([(memory.ctypes.data, memory.nbytes, 0, "")], "DRAM")
    place = pickle.dumps((agent.get_agent_metadata(), memory.ctypes.data))
    with socket.create_server((own, int(port))) as server, DefaultSelector() as selector:
        selector.register(server, EVENT_READ)
        print("ready", flush=True)
        active = False
        while True:
            for key, _ in selector.select(0 if active else None):
                if key.fileobj is server:
                    connection, _ = server.accept()
                    connection.sendall(len(place).to_bytes(8) + place)
                    selector.register(connection, EVENT_READ, connection)
                    continue
                message = key.data.recv(1)
                active = message == _BEGIN
                if not message:
                    selector.unregister(key.data)
                    key.data.close()
            if active:
                agent.get_new_notifs()


def _agent(name: str, address: str) -> nixl_agent:
    from nixl._api import nixl_agent, nixl_agent_config

    if not ip_address(address).is_loopback:
        # Namespaces that stand for machines share memory, which machines do not.
        os.environ["UCX_TLS"] = "tcp"
    config = nixl_agent_config(enable_prog_thread=False, backends=["UCX"])
    return nixl_agent(name, config)


class NixlClient:
    """Writes blocks into the other process's memory, and reads them there."""

    def __init__(self, server: str, own: str) -> None:
        self.version = f"NIXL {importlib.metadata.version('nixl')}"
        host, port = server.split(":")
        self._agent = _agent(type(self).__name__, own)
        self._connection = socket.create_connection((host, int(port)))
        incoming = self._connection.makefile("rb")
        metadata, self._memory = pickle.loads(incoming.read(int.from_bytes(incoming.read(8))))
        self._is_active = False
        self._peer = self._agent.add_remote_agent(metadata)
        self._registered: list[object] = []
        self._source = self._landing = np.empty((0, 0), np.uint8)

    def load(self, source: Blocks, landing: Blocks) -> None:
        """Register both buffers, and unregister those of the turn before."""
        if self._source is not source:
            for registered in self._registered:
                self._agent.deregister_memory(registered)
            self._registered = [
                self._agent.register_memory([(blocks.ctypes.data, blocks.nbytes, 0, "")], "DRAM")
                for blocks in (source, landing)
            ]
        self._source, self._landing = source, landing

    def put(self, key: str, row: int) -> None:
        """Write the row."""
        self._transfer("WRITE", self._source, row, 1)

    def get(self, key: str, row: int) -> None:
        """Read the block."""
        self._transfer("READ", self._landing, row, 1)

    def put_all(self, keys: Sequence[str], outstanding: int) -> None:
        """Transfers of ``outstanding`` blocks."""
        for first in range(0, len(keys), outstanding):
            self._transfer("WRITE", self._source, first, len(keys[first : first + outstanding]))

    def get_all(self, keys: Sequence[str], outstanding: int) -> None:
        """Transfers of ``outstanding`` blocks."""
        for first in range(0, len(keys), outstanding):
            self._transfer("READ", self._landing, first, len(keys[first : first + outstanding]))

    def landed(self) -> Blocks:
        """The landing, into which gets write."""
        return self._landing

    def forget(self, keys: Sequence[str]) -> None:
        """Let the other process rest; the next blocks take the same places."""
        self._connection.sendall(_END)
        self._is_active = False

    def close(self) -> None:
        """Leave the other process."""
        self._agent.remove_remote_agent(self._peer)
        self._connection.close()

    def _transfer(
        self, operation: Literal["WRITE", "READ"], blocks: Blocks, first: int, count: int
    ) -> None:
        if not self._is_active:
            self._connection.sendall(_BEGIN)
            self._is_active = True
        size = blocks.shape[1]
        rows = range(first, first + count)
        here = [(blocks.ctypes.data + row * size, size, 0) for row in rows]
        there = [(self._memory + row * size, size, 0) for row in rows]
        handle = self._agent.initialize_xfer(
            operation,
            self._agent.get_xfer_descs(here, "DRAM"),
            self._agent.get_xfer_descs(there, "DRAM"),
            self._peer,
        )
        state = self._agent.transfer(handle)
        while state == "PROC":
            state = self._agent.check_xfer_state(handle)
        self._agent.release_xfer_handle(handle)
        if state != "DONE":
            raise KVError(f"NIXL's {operation} of {count} blocks failed with {state}")


class NixlDigestClient(NixlClient):
    """As above, with a SHA-256 of each block."""

    def _transfer(
        self, operation: Literal["WRITE", "READ"], blocks: Blocks, first: int, count: int
    ) -> None:
        if operation == "WRITE":
            _hash(blocks[first : first + count])
        super()._transfer(operation, blocks, first, count)
        if operation == "READ":
            _hash(blocks[first : first + count])


def _hash(blocks: Blocks) -> None:
    for block in blocks:
        hashlib.sha256(block.data).digest()
