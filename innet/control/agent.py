"""A node's own answers on its control socket."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import psutil

from innet._native import _core
from innet.control.protocol import RuleMessage
from innet.control.server import ControlServer
from innet.emulation.node_config import NodeConfig

GroupFailureListener = Callable[[str, int, str, int], None]
"""Told of a group's end: its name and number, what happened, and the rank that failed."""


class NodeAgent:
    """A node's ``ping``, ``status``, ``install_group``, ``remove_group`` and ``fail_group``."""

    def __init__(
        self,
        node: _core.Node,
        config: NodeConfig,
        on_group_failure: GroupFailureListener | None = None,
    ) -> None:
        self._node = node
        self._config = config
        self._on_group_failure = on_group_failure
        self._started_s = time.monotonic()
        self._process = psutil.Process()
        self._server = ControlServer(
            config.control_socket,
            {
                "ping": self.ping,
                "status": self.status,
                "install_group": self.install_group,
                "remove_group": self.remove_group,
                "fail_group": self.fail_group,
            },
            who=config.node,
        )

    def ping(self) -> dict[str, Any]:
        """Who answers."""
        return {"node": self._config.node, "kind": self._config.kind, "pid": os.getpid()}

    def status(self) -> dict[str, Any]:
        """Faces, tables, counters, rules, queue depths and memory of the node."""
        status: dict[str, Any] = dict(self._node.status())
        for face, link in zip(self._config.faces, status["links"], strict=True):
            link["peer"] = face.peer
        times = self._process.cpu_times()
        return {
            **self.ping(),
            "uptime_s": time.monotonic() - self._started_s,
            "resident_bytes": self._process.memory_info().rss,
            "cpu_s": times.user + times.system,
            **status,
        }

    def install_group(self, group: str, rules: list[dict[str, Any]]) -> int:
        """Install the rules of ``group`` (a name prefix); how many there were."""
        for document in rules:
            rule = RuleMessage.model_validate(document)
            operands = [(interval, f"/n/{node}") for interval, node in rule.operands]
            self._node.install_rule(group, rule.interval, operands, rule.primary)
        return len(rules)

    def remove_group(self, group: str) -> None:
        """Take the rules of ``group`` away and free its slots."""
        self._node.remove_group(group)

    def fail_group(self, group: str, number: int, why: str, rank: int) -> None:
        """End what this node's application has under way in a group: its ``rank`` has failed."""
        if self._on_group_failure is not None:
            self._on_group_failure(group, number, why, rank)

    def close(self) -> None:
        """Stop answering."""
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
