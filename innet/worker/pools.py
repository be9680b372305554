"""The pools of blocks that a worker is a member of, as its controller knows them."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from innet.errors import ControlError, KVError
from innet.node.control.worker_reports import PoolReport
from innet.worker.controller_connection import ControllerConnection

_PATIENCE_S = 2.0
"""How long to ask a controller about members, or tell it of a leave: neither is worth more."""

ReadCounters = Callable[[], dict[str, Any]]
"""Gives the counters of a pool, as :class:`innet.telemetry.messages.PoolCounters` has them."""

_log = logging.getLogger(__name__)


class WorkerPools:
    """Tells the controller of this worker's pools, and its successor if it is started again.

    All methods but :meth:`reports` block until the controller has answered.
    """

    def __init__(self, controller: ControllerConnection, node: str, incarnation: int) -> None:
        """``incarnation`` of ``node`` is this process."""
        self._controller = controller
        self._identity: dict[str, Any] = {"node": node, "incarnation": incarnation}
        self._lock = threading.Lock()
        self._parts: dict[str, PoolReport] = {}
        self._readers: dict[str, ReadCounters] = {}

    def open(self, part: PoolReport) -> None:
        """Become a member of a pool: the network carries its names to and from here.

        Raises:
            KVError: this process is a member already.
            ControlError: the controller refuses, or does not answer.
        """
        with self._lock:
            if part.tenant in self._parts:
                raise KVError(
                    f"this process has a pool of tenant {part.tenant} already; use that, or close "
                    "it first"
                )
            self._parts[part.tenant] = part
        try:
            self._controller.ask("open_pool", **self._identity, **part.model_dump())
        except BaseException:
            with self._lock:
                del self._parts[part.tenant]
            raise

    def leave(self, tenant: str) -> None:
        """Be a member no longer; nothing happens to who is none."""
        with self._lock:
            self._readers.pop(tenant, None)
            if self._parts.pop(tenant, None) is None:
                return
        try:
            self._controller.ask(
                "leave_pool", patience_s=_PATIENCE_S, **self._identity, tenant=tenant
            )
        except ControlError as error:
            _log.info("left the pool %s without the controller: %s", tenant, error)

    def members(self, tenant: str) -> dict[str, int]:
        """The nodes that offer memory to a pool, and bytes of each.

        Raises:
            ControlError: the controller does not answer.
        """
        members: dict[str, int] = self._controller.ask(
            "pool_members", patience_s=_PATIENCE_S, tenant=tenant
        )
        return members

    def count(self, tenant: str, read: ReadCounters) -> None:
        """Let :meth:`counters` read those of a pool, until this process leaves it."""
        with self._lock:
            if tenant in self._parts:
                self._readers[tenant] = read

    def counters(self) -> list[dict[str, Any]]:
        """What each pool of this process has counted; no two have the same tenant and engine."""
        with self._lock:
            readers = sorted(self._readers.items())
        counters = []
        seen: Counter[tuple[str, str]] = Counter()
        for component, read in readers:
            document = read()
            tenant, engine = document["tenant"], document["engine"]
            seen[tenant, engine] += 1
            if seen[tenant, engine] > 1:  # tenants of one name with different secrets
                document = {**document, "tenant": f"{tenant}-{component[:8]}"}
            counters.append(document)
        return counters

    def reports(self) -> list[PoolReport]:
        """The pools that this worker is in: for a controller that has just begun."""
        with self._lock:
            return list(self._parts.values())
