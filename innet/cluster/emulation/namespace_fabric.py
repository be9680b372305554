"""The links of ``netns`` mode: veth pairs between network namespaces, held by a process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Callable, Collection
from contextlib import ExitStack
from typing import Any, Self

from pydantic import TypeAdapter

from innet.cluster.emulation.kernel_layout import host_addresses, lay_out
from innet.cluster.emulation.kernel_network import (
    FDS_PER_MESSAGE,
    KernelCounters,
    KernelNetwork,
    LinkChange,
    LinkDirection,
    TokenBucket,
)
from innet.cluster.emulation.local_fabric import Fabric
from innet.cluster.emulation.processes import (
    Namespace,
    ProcessGroup,
    ProcessSpec,
    SupervisedProcess,
)
from innet.cluster.emulation.syscalls import take_all_descriptors
from innet.errors import EmulationError
from innet.node.node_config import LinkShape, UdpChannel
from innet.node.requests import ControlReply, ControlRequest
from innet.node.routing import NextHops
from innet.topology import Link, Topology

UDP_PORT = 6363
"""NDN's registered port; each link end has an address of its own, so one port serves all."""

_HOLDER = "namespace-holder"
_HOLDER_MODULE = "innet.cluster.emulation.namespace_holder"
_BUILD_TIMEOUT_S = 60.0
_COUNTERS_TIMEOUT_S = 10.0
_CHANGE_TIMEOUT_S = 10.0
# A line of counters is about 200 bytes for each directed link.
_MAX_REPLY_BYTES = 64 << 20

_counters: TypeAdapter[list[tuple[LinkDirection, KernelCounters]]] = TypeAdapter(
    list[tuple[LinkDirection, KernelCounters]]
)


class NamespaceFabric(Fabric):
    """Links in the kernel, which limits rates and bounds queues; delay and loss are left to the
    emulator's port model. Workers of one host reach its node through memory."""

    def __init__(
        self,
        topology: Topology,
        spec: KernelNetwork,
        on_spawn: Callable[[SupervisedProcess], None],
        run_id: str,
    ) -> None:
        """Nothing happens yet; see :meth:`open`."""
        super().__init__(topology)
        self._spec = spec
        self._addresses = host_addresses(topology)
        self._holders = ProcessGroup(run_id, _discard, on_spawn)
        self._holder: SupervisedProcess | None = None
        self._resources = ExitStack()
        self._namespaces: dict[str, Namespace] = {}
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._request_lock = asyncio.Lock()
        self._add_faces()

    @classmethod
    async def open(
        cls,
        topology: Topology,
        hops: NextHops,
        run_id: str,
        on_spawn: Callable[[SupervisedProcess], None],
    ) -> Self:
        """Build the network in the kernel.

        ``on_spawn`` is called with the process that holds the network, for the run's record.
        """
        fabric = cls(topology, lay_out(topology, hops), on_spawn, run_id)
        try:
            await fabric._build()
        except BaseException:
            await fabric.close()
            raise
        return fabric

    def ip_address(self, node: str) -> str | None:
        """The stable address of a host and of its workers, ``None`` for a switch."""
        return self._addresses.get(self._topology.machine_of[node])

    def namespace(self, node: str) -> Namespace | None:
        """The namespaces of the node: those of its host for a worker."""
        return self._namespaces[self._topology.machine_of[node]]

    def namespace_paths(self) -> dict[str, str]:
        """Paths to the nodes' namespaces; they last as long as the launcher.

        Example: ``nsenter --net=<path> ip address``. Without root, the user namespace comes first:
        ``nsenter --target <pid of a node process> --user --net --preserve-credentials``.
        """
        return {
            node: f"/proc/{os.getpid()}/fd/{self._namespaces[machine].network_fd}"
            for node, machine in self._topology.machine_of.items()
        }

    async def counters(self, nodes: Collection[str]) -> dict[LinkDirection, KernelCounters]:
        """The kernel's counters of the links' directions that begin at ``nodes``.

        One call costs about 0.5 ms of processor time for each node.
        """
        asked = tuple(node for node in nodes if node in self._namespaces)
        request = ControlRequest(method="counters", params={"nodes": asked})
        async with self._request_lock:
            found = await self._result(request, _COUNTERS_TIMEOUT_S)
        return dict(_counters.validate_python(found))

    async def change(self, link: Link, *, is_up: bool) -> LinkShape:
        """Let the kernel cut or connect a link and limit its rate; its delay and loss are left."""
        change = LinkChange(ends=link.nodes, shaper=TokenBucket.for_link(link), is_up=is_up)
        request = ControlRequest(method="change", params=change.model_dump())
        async with self._request_lock:
            await self._result(request, _CHANGE_TIMEOUT_S)
        return _modelled(link)

    async def close(self) -> None:
        """End the holder and drop the namespaces: the kernel takes the network away."""
        if self._writer is not None:
            self._writer.close()
            with contextlib.suppress(ConnectionError):
                await self._writer.wait_closed()
        await self._holders.terminate()
        self._resources.close()
        self._opened.close()

    def _add_faces(self) -> None:
        """A node opens its sockets in its own namespace, where all ports are free."""
        take_all_descriptors()  # a link in memory needs three
        veths = iter(self._spec.veths)
        for link in self._topology.links:
            if link.in_memory:
                self._add_memory_link(link)
                continue
            veth = next(veths)
            shape = _modelled(link)
            for near, far in ((veth.a, veth.b), (veth.b, veth.a)):
                channel = UdpChannel(
                    local_address=near.address,
                    local_port=UDP_PORT,
                    peer_address=far.address,
                    peer_port=UDP_PORT,
                )
                self._add_face(link, near.node, channel, shape, far.node)

    async def _build(self) -> None:
        control, their_control = socket.socketpair()
        descriptors, their_descriptors = socket.socketpair()
        with their_control, their_descriptors, descriptors:
            descriptors.setblocking(False)
            self._reader, self._writer = await asyncio.open_connection(
                sock=control, limit=_MAX_REPLY_BYTES
            )
            fds = (their_control.fileno(), their_descriptors.fileno())
            self._holder = self._holders.spawn(
                ProcessSpec(
                    label=_HOLDER,
                    # -P: a module in the user's directory must not stand in for one of ours.
                    argv=(sys.executable, "-P", "-m", _HOLDER_MODULE, *map(str, fds)),
                    pass_fds=fds,
                )
            )
            their_control.close()
            request = ControlRequest(method="build", params=self._spec.model_dump())
            has_user_namespace = await self._result(request, _BUILD_TIMEOUT_S)
            self._receive_namespaces(descriptors, has_user_namespace)

    async def _result(self, request: ControlRequest, timeout_s: float) -> Any:
        assert self._reader is not None
        assert self._writer is not None
        assert self._holder is not None
        try:
            async with asyncio.timeout(timeout_s):
                self._writer.write(request.model_dump_json().encode() + b"\n")
                await self._writer.drain()
                line = await self._reader.readline()
        except (ConnectionError, TimeoutError) as error:
            raise self._holder_failed() from error
        if not line:
            await self._holder.wait()
            raise self._holder_failed()
        reply = ControlReply.model_validate_json(line)
        if not reply.ok:
            raise EmulationError(f"topology {self._topology.name}: {reply.error}")
        return reply.result

    def _holder_failed(self) -> EmulationError:
        assert self._holder is not None
        return EmulationError(
            f"the process that holds the network of {self._topology.name} does not answer: "
            f"{self._holder.failure_report()}. Take the run down (innet down) and start it again."
        )

    def _receive_namespaces(self, descriptors: socket.socket, user_namespace: bool) -> None:
        nodes = [namespace.node for namespace in self._spec.namespaces]
        fds = self._receive_fds(descriptors, len(nodes) + user_namespace)
        user_fd = fds.pop() if user_namespace else None
        for node, fd in zip(nodes, fds, strict=True):
            self._namespaces[node] = Namespace(network_fd=fd, user_fd=user_fd)

    def _receive_fds(self, descriptors: socket.socket, count: int) -> list[int]:
        # Nothing to wait for: the holder sends them before its reply.
        received: list[int] = []
        while len(received) < count:
            _data, fds, _flags, _address = socket.recv_fds(descriptors, 1, FDS_PER_MESSAGE)
            if not fds:
                raise EmulationError(
                    f"no descriptor left for {count} namespaces. Raise the limit on open files "
                    "(ulimit -n), or launch a smaller topology."
                )
            for fd in fds:
                self._resources.callback(os.close, fd)
            received += fds
        return received


def _modelled(link: Link) -> LinkShape:
    """What the kernel does not do of a link."""
    return LinkShape(
        rate_bps=None, delay_s=link.delay_s, loss=link.loss, queue_bytes=0, mark_bytes=None
    )


def _discard(_label: str, _line: str) -> None:
    """The holder has nothing to say to the user; its last lines are kept for error messages."""
