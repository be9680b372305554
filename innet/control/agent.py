"""A node's own answers on its control socket."""

from __future__ import annotations

import os
import time
from types import TracebackType
from typing import Any, Protocol, Self

import psutil

from innet._native import _core
from innet.control.protocol import RuleMessage
from innet.control.server import ControlServer
from innet.emulation.node_config import NodeConfig


class GroupListener(Protocol):
    """Told what becomes of the groups that a node's process is in, by name and number."""

    def on_group_failed(self, group: str, number: int, why: str, rank: int) -> None:
        """``rank`` of the group has failed, and so has the group."""

    def on_group_over(self, group: str, number: int) -> None:
        """Every rank has left the group: nobody needs anything of it any more."""


class NodeAgent:
    """A node's answers: who it is, its status, its rules, and what becomes of its groups."""

    def __init__(
        self,
        node: _core.NodeHandle,
        config: NodeConfig,
        groups: GroupListener | None = None,
    ) -> None:
        self._node = node
        self._config = config
        self._groups = groups
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
                "end_group": self.end_group,
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
        if self._groups is not None:
            self._groups.on_group_failed(group, number, why, rank)

    def end_group(self, group: str, number: int) -> None:
        """Free what this node keeps for a group that all have left."""
        if self._groups is not None:
            self._groups.on_group_over(group, number)

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
