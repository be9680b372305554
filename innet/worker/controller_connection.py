"""A worker's connection to the controller of its run, and the pools that it reports there."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from innet.errors import ControlError, KVError, NoAnswer
from innet.node.controller_client import ControllerClient
from innet.node.messages import PoolReport

_ASK_AGAIN_S = 2.0
"""Timeout of one request: a controller that died closes no connection, its successor answers."""
_PATIENCE_S = 2.0
"""Timeout of questions about members and of reports of a leave: neither is worth more."""

ReadCounters = Callable[[], dict[str, Any]]
"""Gives the counters of a pool, as :class:`innet.telemetry.messages.PoolCounters` has them."""

_log = logging.getLogger(__name__)


class ControllerConnection:
    """Sends requests to the controller, again while it restarts: a request may arrive twice."""

    def __init__(self, socket: Path, patience_s: float) -> None:
        """``patience_s``: how long to repeat a request, unless a call says otherwise."""
        self._client = ControllerClient(socket)
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._is_away = False
        self._has_ended = False

    def end(self) -> None:
        """Ask no more: the run has ended, and another of its name has a socket at the same path."""
        self._has_ended = True

    def ask(self, method: str, *, patience_s: float | None = None, **params: Any) -> Any:
        """The controller's answer to ``method``.

        Raises:
            NoAnswer: no controller has answered for ``patience_s``; one that ended in between and
                its successor are asked again.
            ControlError: the answer is a refusal.
        """
        patience_s = self._patience_s if patience_s is None else patience_s
        deadline_s = time.monotonic() + patience_s
        while True:
            if self._has_ended:
                raise ControlError("the run of this process has ended")
            left_s = max(0.0, deadline_s - time.monotonic())
            try:
                answer = self._client.request(method, timeout_s=min(_ASK_AGAIN_S, left_s), **params)
            except NoAnswer:
                if time.monotonic() >= deadline_s:
                    raise
                self._note_away(is_away=True)
            else:
                self._note_away(is_away=False)
                return answer

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _note_away(self, *, is_away: bool) -> None:
        with self._lock:
            changed, self._is_away = self._is_away != is_away, is_away
        if changed and is_away:
            _log.warning(
                "the controller of this run does not answer; requests are repeated until it does"
            )


class WorkerPools:
    """The pools of blocks that a worker is a member of, as its controller knows them.

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
        """Become a member of a pool: the network routes its names to and from here."""
        with self._lock:
            self._require_new(part.tenant)
            self._parts[part.tenant] = part
        try:
            self._controller.ask("open_pool", **self._identity, **part.model_dump())
        except BaseException:
            with self._lock:
                del self._parts[part.tenant]
            raise

    def require_new(self, tenant: str) -> None:
        """Refuse a pool that this worker is a member of.

        Raises:
            KVError: it is.
        """
        with self._lock:
            self._require_new(tenant)

    def leave(self, tenant: str) -> None:
        """Leave a pool; nothing happens when this process is not a member."""
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
        """The nodes that offer memory to a pool, and the bytes of each."""
        members: dict[str, int] = self._controller.ask(
            "pool_members", patience_s=_PATIENCE_S, tenant=tenant
        )
        return members

    def processes(self, tenant: str) -> list[str]:
        """The nodes of all processes of a pool, also of those that offer no memory."""
        pools = self._controller.ask("pools", patience_s=_PATIENCE_S)
        return [node for pool in pools if pool["tenant"] == tenant for node in pool["members"]]

    def empty_caches(self, tenant: str) -> None:
        """Empty the switches' caches of a pool's blocks.

        Raises:
            ControlError: this process is not in the pool, or the controller does not answer.
        """
        self._controller.ask(
            "empty_pool_caches", patience_s=_PATIENCE_S, **self._identity, tenant=tenant
        )

    def replicas(self, tenant: str) -> int | None:
        """Homes of a block, as a pool's members count them; ``None``: it has no members."""
        pools = self._controller.ask("pools", patience_s=_PATIENCE_S)
        return next((pool["replicas"] for pool in pools if pool["tenant"] == tenant), None)

    def has_any(self) -> bool:
        """Whether any pool has a member."""
        return bool(self._controller.ask("pools", patience_s=_PATIENCE_S))

    def count(self, tenant: str, read: ReadCounters) -> None:
        """Let :meth:`counters` read those of a pool, until this process leaves it."""
        with self._lock:
            if tenant in self._parts:
                self._readers[tenant] = read

    def counters(self) -> list[dict[str, Any]]:
        """Counters of each pool of this process; no two have the same tenant and engine."""
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
        """The pools that this worker is in, for a controller that has started again."""
        with self._lock:
            return list(self._parts.values())

    def _require_new(self, tenant: str) -> None:
        if tenant in self._parts:
            raise KVError(
                "this process has opened this tenant's pool already: close that, or share its "
                "PoolMember (KVPool takes member=)"
            )
