"""A single node as an NDN forwarder of a machine, without a topology."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from innet._native import _core
from innet.errors import EmulationError
from innet.ndn.strategy import Strategy, StrategyRunner
from innet.node.native_settings import NodeSizes, native_settings
from innet.settings import Settings

_OWNER, _EVERY_USER = 0o600, 0o666


@dataclass(frozen=True)
class ForwarderOptions:
    """The options of a forwarder.

    Attributes:
        listeners: face URIs to listen on: ``unix:///path``, ``tcp4://127.0.0.1:6363``,
            ``udp4://127.0.0.1:6363``.
        cache_bytes: size of the content store; 0 for none.
        cache_policy: ``lru`` or ``s3fifo``.
        udp_idle_s: silence after which a UDP face is closed.
        strategies: written in Python, each with its prefix.
        command_keys: whose management commands are obeyed; none: those of every program that may
            connect to the Unix socket.
        localhop_rib: whether programs one hop away may register routes, too.
    """

    listeners: Sequence[str]
    cache_bytes: int = 64 << 20
    cache_policy: str = "lru"
    udp_idle_s: float = 600.0
    strategies: Sequence[tuple[str, Strategy]] = ()
    command_keys: Sequence[_core.SigningKey] = ()
    localhop_rib: bool = False
    unix_permissions: int | None = None
    """Of the Unix socket's file: who may connect. ``None``: its owner, and every user when root
    runs the forwarder, as NFD's socket has it."""


class Forwarder:
    """Runs while its context is entered.

    Example::

        with Forwarder(ForwarderOptions(["unix:///tmp/ndn.sock"])) as forwarder:
            print(forwarder.listeners)
    """

    def __init__(self, options: ForwarderOptions, settings: Settings | None = None) -> None:
        self._options = options
        self._settings = settings or Settings()
        self._open = ExitStack()
        self._node: _core.Node | None = None
        self.listeners: tuple[str, ...] = ()
        """URIs of the listeners, with the ports that the system chose."""

    def __enter__(self) -> Self:
        """Listen.

        Raises:
            EmulationError: a listener cannot be opened; all others are closed again.
            ValueError: a command key is malformed.
        """
        node = _core.Node(
            native_settings(
                "forwarder",
                self._settings,
                NodeSizes(
                    seed=secrets.randbits(48),
                    cache_bytes=self._options.cache_bytes,
                    cache_policy=self._options.cache_policy,
                ),
            ),
            _core.SigningKey("digest"),
            [],
        )
        self._open.callback(node.stop, "the forwarder was told to stop")
        node.start()
        with ExitStack() as opening:
            opening.push(self._open.pop_all())
            node.authorise_commands(list(self._options.command_keys), self._options.localhop_rib)
            self.listeners = tuple(self._listen(node, uri) for uri in self._options.listeners)
            for prefix, strategy in self._options.strategies:
                runner = StrategyRunner(node, prefix, strategy)
                runner.start()
                opening.callback(runner.stop)
            self._open = opening.pop_all()
        self._node = node
        return self

    def _listen(self, node: _core.Node, uri: str) -> str:
        try:
            return node.listen(
                uri,
                permissions=self._unix_permissions(),
                udp_idle_timeout_s=self._options.udp_idle_s,
            )
        except RuntimeError as error:
            raise EmulationError(
                f"cannot listen on {uri}: {error}. Choose another with --unix, --tcp or --udp, or "
                "leave it out with --no-unix, --no-tcp or --no-udp."
            ) from error

    def _unix_permissions(self) -> int:
        if self._options.unix_permissions is not None:
            return self._options.unix_permissions
        return _EVERY_USER if os.geteuid() == 0 else _OWNER

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def node(self) -> _core.Node:
        """The node, for routes that nobody registers, and for its status."""
        if self._node is None:
            raise EmulationError("the forwarder does not run. Enter its context first: with ...")
        return self._node
