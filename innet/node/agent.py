"""The requests that a node answers on its control socket."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self

from innet._native import _core
from innet.errors import ControlError, SecurityError
from innet.machine import read_kernel_file
from innet.node.announcer import Announcer
from innet.node.control_server import ControlServer
from innet.node.messages import (
    JobMessage,
    NodeReading,
    PoolMessage,
    RuleMessage,
    ServedPrefixes,
    job_of,
)
from innet.node.native_settings import shape_of_face
from innet.node.node_config import LinkShape, NodeConfig
from innet.quantities import counted
from innet.security.keys import node_certificate_name
from innet.telemetry.events import report

if TYPE_CHECKING:  # a switch starts without plans and topologies
    from innet.node.messages import WorkerReport
    from innet.plans import Plan
    from innet.security.credential_packets import CredentialOpener
    from innet.security.keys import NodeKeys


class GroupListener(Protocol):
    """Takes events of the groups that a node's process is in, by name and number."""

    def on_group_failed(self, group: str, number: int, why: str, rank: int | None) -> None:
        """The group has failed, because of ``rank`` if a rank failed."""

    def on_group_over(self, group: str, number: int) -> None:
        """Every rank has left the group: its Data is not needed any more."""

    def worker_report(self) -> WorkerReport:
        """The worker, its groups and its pools, for a restarted controller."""

    def pool_counters(self) -> list[dict[str, Any]]:
        """The counters of the process's pools of blocks."""

    def on_group_placed(
        self, group: str, number: int, plans: Mapping[str, Plan], keys: str | None
    ) -> None:
        """The placement of the group's sums has changed; ``plans`` has the new one by name prefix.

        ``keys`` are new credentials; ``None``: they do not change.
        """


class NodeAgent:
    """Serves a node's control socket: its status, rules, routes and groups."""

    def __init__(
        self,
        node: _core.Node,
        config: NodeConfig,
        groups: GroupListener | None = None,
        credentials: CredentialOpener | None = None,
        announcer: Announcer | None = None,
        keys: NodeKeys | None = None,
    ) -> None:
        """
        Args:
            groups: of its process, if it is a worker.
            credentials: opens credentials that are sealed to this process.
            announcer: announces the prefixes that programs serve here; the agent closes it.
            keys: with which a switch signs sums.
        """
        self._node = node
        self._config = config
        self._groups = groups
        self._credentials = credentials
        self._announcer = announcer
        self._keys = keys
        self._network_routes_serial = 0
        self._routes_lock = threading.Lock()  # the worker sets routes, too
        self._routes = {route.node: route.face for route in config.routes}
        self._ruled: set[str] = set()
        self._pools: set[str] = set()
        self._started_s = time.monotonic()
        self._server = ControlServer(
            config.control_socket,
            {
                "ping": self.ping,
                "status": self.status,
                "install_job": self.install_job,
                "remove_job": self.remove_job,
                "sealing_key": self.sealing_key,
                "install_group_keys": self.install_group_keys,
                "set_pools": self.set_pools,
                "drop_cached": self.drop_cached,
                "install_group": self.install_group,
                "remove_group": self.remove_group,
                "set_routes": self.set_routes,
                "set_network_routes": self.set_network_routes,
                "registered": self.registered,
                "fail_group": self.fail_group,
                "end_group": self.end_group,
                "place_group": self.place_group,
                "memberships": self.memberships,
                "tap_packets": self.tap_packets,
                "shape_link": self.shape_link,
            },
            who=config.node,
        )

    def ping(self) -> dict[str, Any]:
        """The node's identity, the neighbours from which it receives nothing, and its use."""
        return self._identity() | {"unheard": self._unheard(), "reading": self._reading()}

    def shape_link(self, *, peer: str, shape: dict[str, Any]) -> None:
        """Give what this node sends to a neighbour another shape; a cut link loses all packets."""
        wanted = LinkShape.model_validate(shape)
        index = self._face_to(peer)
        native = shape_of_face(self._config, index, wanted)
        self._node.reshape_link(index, shape=native, up=not wanted.is_cut)

    def _face_to(self, peer: str) -> int:
        for index, face in enumerate(self._config.faces):
            if face.peer == peer:
                return index
        raise ControlError(f"{self._config.node} has no link to {peer}")

    def _reading(self) -> dict[str, Any] | None:
        """A :class:`NodeReading`; ``None`` of a node that has been stopped."""
        try:
            status = self._node.status(with_rules=False)
        except RuntimeError:
            return None
        links = list(zip(self._config.faces, status["links"], strict=True))
        times = os.times()
        return NodeReading(
            time_s=time.monotonic() - self._started_s,
            cpu_s=times.user + times.system,
            sent_bytes={face.peer: link["bytes_out"] for face, link in links},
            received_bytes={face.peer: link["bytes_in"] for face, link in links},
            slots=self._config.slots if self._config.kind == "switch" else 0,
            slots_in_use={job["prefix"]: job["slots_in_use"] for job in status["jobs"]},
            late=tuple({late for operation in status["operations"] for late in operation["late"]}),
        ).model_dump()

    def _identity(self) -> dict[str, Any]:
        return {
            "node": self._config.node,
            "kind": self._config.kind,
            "workers": self._config.workers,
            "pid": os.getpid(),
        }

    def _unheard(self) -> list[str]:
        try:
            silent = self._node.silent_faces()
        except RuntimeError:
            return []  # it has been stopped
        return [self._config.faces[face].peer for face in silent]

    def status(self, *, with_rules: bool = True) -> dict[str, Any]:
        """Faces, tables, counters, rules, queue depths and memory of the node.

        Args:
            with_rules: else the list of rules is empty; it is most of the answer in a large group.
        """
        status: dict[str, Any] = dict(self._node.status(with_rules=with_rules))
        for face, link in zip(self._config.faces, status["links"], strict=True):
            link["peer"] = face.peer
        times = os.times()
        return {
            **self._identity(),
            "unheard": [link["peer"] for link in status["links"] if link["silent"]],
            "uptime_s": time.monotonic() - self._started_s,
            "resident_bytes": _resident_bytes(),
            "cpu_s": times.user + times.system,
            "time_s": time.time(),
            "slots": self._config.slots,
            "pools": [] if self._groups is None else self._groups.pool_counters(),
            "unannounced": {} if self._announcer is None else self._announcer.unannounced,
            **status,
        }

    def install_job(self, **document: Any) -> None:
        """Serve a job (see :class:`JobMessage`), or give it another weight."""
        job = JobMessage.model_validate(document)
        self._node.install_job(
            job.prefix,
            job.weight,
            job.keys.signing_key() or self._own_key_in(job_of(job.prefix)),
            job.keys.trusted_keys(),
        )
        for index, face in enumerate(self._config.faces):
            if face.peer in job.hosts:
                self._node.bind_face(index, job.prefix)
                if job.admits_others:
                    self._node.admit_face(index, None)

    def _own_key_in(self, job: str) -> _core.SigningKey | None:
        """The key with which this node signs sums of a job that has no key of its own here."""
        if self._keys is None:
            return None
        return self._keys.signing_key_as(node_certificate_name(self._config.node, job))

    def remove_job(self, prefix: str) -> None:
        """Remove the job's rules, slots, pending Interests, cached Data and keys."""
        self._node.remove_job(prefix)
        for group in [group for group in self._ruled if group.startswith(f"{prefix}/")]:
            self._report_removed(group)

    def sealing_key(self) -> str | None:
        """The public key to which the controller seals secrets for this process, hexadecimal."""
        return None if self._credentials is None else self._credentials.public

    def install_group_keys(self, packet: str) -> None:
        """Sign and verify a group's names with the credentials in a packet (hexadecimal)."""
        if self._credentials is None:
            raise SecurityError(f"{self._config.node} has no key to open credentials with")
        self._credentials.open(bytes.fromhex(packet)).install(self._node)

    def set_pools(self, pools: list[dict[str, Any]]) -> None:
        """Serve these pools of blocks (see :class:`PoolMessage`) and no others."""
        wanted = [PoolMessage.model_validate(document) for document in pools]
        for prefix in self._pools.difference(pool.prefix for pool in wanted):
            self._node.remove_job(prefix)
            self._pools.remove(prefix)
        for pool in wanted:
            self._node.install_job(pool.prefix, pool.weight, None, [pool.key.native()])
            self._pools.add(pool.prefix)
            for index, face in enumerate(self._config.faces):
                if face.peer in pool.hosts:
                    self._node.admit_face(index, pool.prefix)
                elif face.peer_kind == "host":
                    self._node.dismiss_face(index, pool.prefix)

    def drop_cached(self, prefix: str) -> None:
        """Empty the node's cache of a pool's names."""
        self._node.drop_cached(prefix)

    def install_group(self, group: str, rules: list[dict[str, Any]]) -> int:
        """Install the rules of ``group`` (a name prefix); how many there were."""
        for document in rules:
            rule = RuleMessage.model_validate(document)
            operands = [(interval, f"/n/{node}") for interval, node in rule.operands]
            ahead_to = [f"/n/{node}" if node else "" for node in rule.ahead_to]
            self._node.install_rule(group, rule.interval, operands, rule.primary, ahead_to)
        count = counted(len(rules), "rule")
        what = f"{count} of {group} on {self._config.node}"
        self._ruled.add(group)
        report("rules_installed", what, group=group, rules=len(rules), job=job_of(group))
        return len(rules)

    def remove_group(self, group: str) -> None:
        """Remove the rules of ``group`` and free its slots."""
        self._node.remove_group(group)
        if group in self._ruled:
            self._report_removed(group)

    def set_routes(self, routes: dict[str, int]) -> None:
        """Replace all routes by the face towards every node that can be reached."""
        self._require_faces(routes.values())
        with self._routes_lock:
            before, self._routes = self._routes, dict(routes)
            for node, face in routes.items():
                if before.get(node) != face:
                    self._node.add_route(f"/n/{node}", face)
            for node, face in before.items():
                if routes.get(node) != face:
                    self._node.remove_route(f"/n/{node}", face)

    def set_network_routes(
        self, served: list[tuple[list[str], list[tuple[int, int]]]], anew: bool, serial: int
    ) -> None:
        """Update the routes to prefixes that programs of other nodes serve.

        Args:
            served: prefixes with the same next hops, with these faces and their costs; none where
                they are served nowhere else any more.
            anew: these are all routes; others are removed.
            serial: grows with each update; a late one is ignored.
        """
        self._require_faces(face for _, hops in served for face, _ in hops)
        if serial > self._network_routes_serial:
            self._network_routes_serial = serial
            self._node.set_network_routes(served, anew)

    def registered(self) -> dict[str, Any]:
        """The prefixes that programs serve here, for a restarted controller."""
        if self._announcer is None:
            return ServedPrefixes(version=0, prefixes=()).model_dump()
        return self._announcer.registered.model_dump()

    def _require_faces(self, routed: Iterable[int]) -> None:
        faces = range(len(self._config.faces))
        wrong = sorted({face for face in routed if face not in faces})
        if wrong:
            raise ControlError(
                f"there are faces 0 to {len(faces) - 1}, and routes were given to others: {wrong}. "
                f"No route was changed; `innet status --node {self._config.node}` shows them."
            )

    def _report_removed(self, group: str) -> None:
        self._ruled.discard(group)
        what = f"rules of {group} on {self._config.node}"
        report("rules_removed", what, group=group, job=job_of(group))

    def tap_packets(self, path: str, faces: list[int]) -> None:
        """Copy packets of these faces to the listener at a Unix socket, until it closes."""
        try:
            self._node.add_tap(path, faces)
        except RuntimeError as error:
            raise ControlError(
                f"{self._config.node} cannot copy its packets: {error}. Does the capture still run?"
            ) from error

    def fail_group(self, group: str, number: int, why: str, rank: int | None) -> None:
        """End the operations of this node's application in a group that has failed."""
        if self._groups is not None:
            self._groups.on_group_failed(group, number, why, rank)

    def end_group(self, group: str, number: int) -> None:
        """Free the state of a group that all ranks have left."""
        if self._groups is not None:
            self._groups.on_group_over(group, number)

    def memberships(self) -> dict[str, Any]:
        """The worker of this node, its groups and its pools."""
        if self._groups is None:
            raise ControlError(f"{self._config.node} is a switch and in no group")
        return self._groups.worker_report().model_dump()

    def place_group(
        self,
        group: str,
        number: int,
        plans: dict[str, dict[str, Any]],
        keys: str | None = None,
    ) -> None:
        """Fetch the sums of a group from where its plans place them now."""
        if self._groups is not None:
            from innet.plans import Plan

            placed = {prefix: Plan.from_dict(plan) for prefix, plan in plans.items()}
            self._groups.on_group_placed(group, number, placed, keys)

    def close(self) -> None:
        """Stop answering."""
        if self._announcer is not None:
            self._announcer.close()
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _resident_bytes() -> int:
    """Memory of this process, see proc_pid_statm(5)."""
    resident_pages = int(read_kernel_file("/proc/self/statm").split()[1])
    return resident_pages * os.sysconf("SC_PAGE_SIZE")
