"""PyTorch's multi-process test case over an emulated network: each process works for one host."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import socket
import tempfile
import unittest
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch

from innet.node.node_config import NODE_CONFIG_VARIABLE, NodeConfig
from innet.worker import close_worker
from tests.torch_suite.hosts import Environment, Hosts

_END_TIMEOUT_S = 10.0

# Forked from a server that has imported everything and started no thread: fast, and safe for the
# native threads that each child starts.
_context = multiprocessing.get_context("forkserver")
_preloaded = ["pytest"]


def preload(*modules: str) -> None:
    """Have ``modules`` imported once, before the first process is forked."""
    _preloaded.extend(modules)
    _context.set_forkserver_preload(_preloaded)


class ForkedRanks(unittest.TestCase):
    """Mixed in before PyTorch's ``MultiProcessTestCase``: starts its processes as a job's workers.

    Attributes:
        hosts: the network; set for the time of the tests.
    """

    hosts: ClassVar[Hosts]

    def setUp(self) -> None:
        # First: PyTorch's own may start the processes already.
        self._job = contextlib.ExitStack()
        self.addCleanup(self._job.close)
        super().setUp()

    def tearDown(self) -> None:
        processes = list(self.processes)
        super().tearDown()  # terminates them
        for process in processes:
            process.join(_END_TIMEOUT_S)
            if process.exitcode is None:
                process.kill()
                process.join()

    def _spawn_processes(self) -> None:
        environments = iter(self._job.enter_context(self.hosts.job()))

        def process(target: Callable[..., None], name: str, args: Any, kwargs: Any) -> Any:
            environment = {**os.environ, **next(environments)}
            links = _link_sockets(environment)
            for link in links:
                self._job.callback(link.close)
            return _context.Process(
                target=_run_rank, name=name, args=(environment, links, target, args, kwargs)
            )

        self._start_processes(process)

    def _check_return_codes(self, fn: Any, elapsed_time: float) -> None:
        try:
            super()._check_return_codes(fn, elapsed_time)
        except unittest.SkipTest as skipped:
            raise AssertionError(
                f"the test skipped itself ({skipped}), and skips.toml does not say why"
            ) from skipped


def _link_sockets(environment: Environment) -> list[socket.socket]:
    """Copies of the sockets of a host's links: the launcher, this process, holds them open."""
    config = NodeConfig.load(Path(environment[NODE_CONFIG_VARIABLE]))
    fds = [fd for face in config.faces for fd in face.channel.fds]
    return [socket.socket(fileno=os.dup(fd)) for fd in fds]


def _run_rank(
    environment: Environment,
    links: list[socket.socket],
    target: Callable[..., None],
    args: Any,
    kwargs: Mapping[str, Any],
) -> None:
    """What the forked process runs; returns, or raises ``SystemExit`` as the target does."""
    os.environ.update(environment)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as directory:
        _use_links(links, Path(directory) / "node.json")
        try:
            target(*args, **kwargs)
        except SystemExit as end:
            if end.code:
                raise  # the others are ended now: wait for nobody
            close_worker()
            raise
        close_worker()


def _use_links(links: list[socket.socket], path: Path) -> None:
    """Describe this process's node with the descriptors that its links have here."""
    config = NodeConfig.load(Path(os.environ[NODE_CONFIG_VARIABLE]))
    faces = tuple(
        face.model_copy(update={"channel": face.channel.model_copy(update={"fd": link.detach()})})
        for face, link in zip(config.faces, links, strict=True)
    )
    path.write_text(config.model_copy(update={"faces": faces}).model_dump_json())
    os.environ[NODE_CONFIG_VARIABLE] = str(path)
