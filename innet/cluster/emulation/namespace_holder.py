"""The process that builds a run's kernel network and holds it: ``python -m`` this module.

The namespaces have no name in ``/run/netns`` that could outlive a crash. They exist as long as a
process has them open: this one, the launcher, and the node processes, which all end with the
launcher. Then the kernel removes namespaces, veth pairs and queues, even after a SIGKILL. Without
root, this process first enters a new user namespace, in which it may build networks. The launcher
needs no rights and stays outside.

It serves requests (:mod:`innet.node.requests`) on the inherited Unix socket that its first argument
names: ``build``, with a :class:`KernelNetwork`, then ``counters`` and ``change``. Before it replies
to ``build``, it sends the descriptors of its namespaces over the second argument's socket, in the
same order, then that of the user namespace, if it made one. End of file ends the process.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl import TC_H_ROOT

from innet.cluster.emulation.kernel_network import (
    FDS_PER_MESSAGE,
    HOST_ADDRESS_LABEL,
    InterfaceSpec,
    KernelCounters,
    KernelNetwork,
    LinkChange,
    LinkDirection,
    NamespaceSpec,
    TokenBucket,
    VethSpec,
)
from innet.cluster.emulation.syscalls import (
    CLONE_NEWNET,
    CLONE_NEWUSER,
    take_all_descriptors,
    unshare,
)
from innet.errors import EmulationError
from innet.node.requests import Handler, reply_to

_WHO = "the namespace holder"
_LOOPBACK_INDEX = 1
_MAC_OF_NOBODY = "02:ff:ff:ff:ff:ff"
_NUD_PERMANENT = 0x80
_SIOCETHTOOL = 0x8946
_ETHTOOL_GLINK = 0x0A
_IFREQ = struct.Struct("@16sP16x")
_AMOUNTS = ("bytes", "packets", "drops")


@dataclass
class _Interface:
    index: int
    direction: LinkDirection
    other: InterfaceSpec
    shaped: bool = False
    ahead: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(_AMOUNTS, 0))
    """By how much its counters are ahead of those that the kernel has now."""

    def total(self, counters: KernelCounters) -> KernelCounters:
        """The counters since the launch, given the kernel's."""
        sums = {name: getattr(counters, name) + self.ahead[name] for name in _AMOUNTS}
        return counters.model_copy(update=sums)


class _Node:
    """One namespace: its descriptor, a netlink socket inside it, and its interfaces."""

    def __init__(self, spec: NamespaceSpec) -> None:
        """Create the namespace; the calling thread is in it afterwards."""
        self.spec = spec
        unshare(CLONE_NEWNET)
        self.fd = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        _set_sysctls(spec)
        self.netlink = IPRoute()
        self._asker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self.interfaces: list[_Interface] = []
        self.netlink.link("set", index=_LOOPBACK_INDEX, state="up")
        if spec.address is not None:
            self.netlink.addr(
                "add",
                index=_LOOPBACK_INDEX,
                address=spec.address,
                prefixlen=32,
                label=HOST_ADDRESS_LABEL,
            )

    def attach(self, mine: InterfaceSpec, other: InterfaceSpec, shaper: TokenBucket | None) -> None:
        """Bring up one end of an existing veth pair."""
        index: int = self.netlink.link_lookup(ifname=mine.name)[0]
        direction = LinkDirection(mine.node, mine.name, other.node, other.name)
        interface = _Interface(index, direction, other)
        self._shape(interface, shaper)
        self.netlink.addr("add", index=index, address=mine.address, prefixlen=31)
        self.netlink.link("set", index=index, state="up")
        self._address_neighbour(interface, other.mac)
        self.interfaces.append(interface)

    def _shape(self, interface: _Interface, shaper: TokenBucket | None) -> None:
        if shaper is not None:
            self.netlink.tc(
                "replace",
                "tbf",
                interface.index,
                "1:",
                rate=shaper.rate_bytes_per_s,
                burst=shaper.burst_bytes,
                limit=shaper.limit_bytes,
            )
        elif interface.shaped:
            self.netlink.tc("del", index=interface.index, handle="1:", parent=TC_H_ROOT)
        interface.shaped = shaper is not None

    def _address_neighbour(self, interface: _Interface, mac: str) -> None:
        self.netlink.neigh(
            "replace",
            dst=interface.other.address,
            lladdr=mac,
            ifindex=interface.index,
            state=_NUD_PERMANENT,
        )

    def add_routes(self) -> None:
        """Add the routes to all hosts; a host's own packets carry its stable address."""
        indices = {interface.direction.port: interface.index for interface in self.interfaces}
        source = {} if self.spec.address is None else {"prefsrc": self.spec.address}
        for route in self.spec.routes:
            self.netlink.route(
                "add",
                dst=route.destination,
                gateway=route.gateway,
                oif=indices[route.interface],
                **source,
            )

    def change(self, peer: str, shaper: TokenBucket | None, *, is_up: bool) -> None:
        """Limit the rate to a neighbour, and cut or connect the link at this end.

        Packets on a cut link have a destination that the neighbour's kernel drops. The interface
        stays up, since processes that start meanwhile could not connect their sockets without.
        """
        (interface,) = (i for i in self.interfaces if i.direction.peer == peer)
        before = dict(self.counters())[interface.direction]
        self._shape(interface, shaper)
        interface.ahead = dict.fromkeys(_AMOUNTS, 0)
        after = dict(self.counters())[interface.direction]
        interface.ahead = {name: getattr(before, name) - getattr(after, name) for name in _AMOUNTS}
        self._address_neighbour(interface, interface.other.mac if is_up else _MAC_OF_NOBODY)

    def counters(self) -> Iterator[tuple[LinkDirection, KernelCounters]]:
        """Read the counters of the node's egresses."""
        by_index: dict[int, KernelCounters] = {}
        if any(interface.shaped for interface in self.interfaces):
            by_index |= {q["index"]: _queue_counters(q) for q in self.netlink.get_qdiscs()}
        for interface in self.interfaces:
            if not interface.shaped:
                (link,) = self.netlink.get_links(interface.index)
                by_index[interface.index] = _link_counters(link)
            counters = interface.total(by_index[interface.index])
            is_up = self._is_up(interface.direction.port)
            yield interface.direction, counters.model_copy(update={"is_up": is_up})

    def _is_up(self, port: str) -> bool:
        """Ask for an interface's carrier.

        Netlink would send all that is known of it, and the flags follow a carrier up to 1 s later.
        """
        value = (ctypes.c_uint32 * 2)(_ETHTOOL_GLINK, 0)
        fcntl.ioctl(self._asker, _SIOCETHTOOL, _IFREQ.pack(port.encode(), ctypes.addressof(value)))
        return bool(value[1])


class _Network:
    """The network of a run, built on construction."""

    def __init__(self, spec: KernelNetwork) -> None:
        self.user_namespace_fd = _enter_user_namespace_unless_privileged()
        self._nodes: dict[str, _Node] = {}
        for namespace in spec.namespaces:
            self._nodes[namespace.node] = _Node(namespace)
        for veth in spec.veths:
            self._connect(veth)
        for node in self._nodes.values():
            node.add_routes()

    @property
    def fds(self) -> list[int]:
        """Descriptors of all namespaces, the user namespace last."""
        fds = [node.fd for node in self._nodes.values()]
        return fds if self.user_namespace_fd is None else [*fds, self.user_namespace_fd]

    def counters(self, nodes: Sequence[str]) -> list[tuple[LinkDirection, KernelCounters]]:
        """The counters of the links' directions that begin at ``nodes``, at about one moment."""
        return [pair for node in nodes for pair in self._nodes[node].counters()]

    def change(self, change: LinkChange) -> None:
        """Change both directions of a link."""
        for node, peer in (change.ends, change.ends[::-1]):
            self._nodes[node].change(peer, change.shaper, is_up=change.is_up)

    def _connect(self, veth: VethSpec) -> None:
        a, b = self._nodes[veth.a.node], self._nodes[veth.b.node]
        a.netlink.link(
            "add",
            kind="veth",
            ifname=veth.a.name,
            address=veth.a.mac,
            mtu=veth.mtu_bytes,
            peer={
                "ifname": veth.b.name,
                "address": veth.b.mac,
                "mtu": veth.mtu_bytes,
                "net_ns_fd": b.fd,
            },
        )
        a.attach(veth.a, veth.b, veth.shaper)
        b.attach(veth.b, veth.a, veth.shaper)


def _enter_user_namespace_unless_privileged() -> int | None:
    """Get the right to make network namespaces; the descriptor of a user namespace if needed."""
    try:
        unshare(CLONE_NEWNET)
    except PermissionError:
        uid, gid = os.geteuid(), os.getegid()
        unshare(CLONE_NEWUSER)
        # As user_namespaces(7) demands: setgroups goes before an unprivileged gid_map.
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
        return os.open("/proc/self/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    return None


def _set_sysctls(spec: NamespaceSpec) -> None:
    """Configure the namespace that the calling thread is in, before it has any interface."""
    ipv4 = Path("/proc/sys/net/ipv4")
    (ipv4 / "ip_forward").write_text("1" if spec.forwards else "0")
    for interfaces in ("all", "default"):
        # Destinations are dealt out over equal paths, so the way back may be another one.
        (ipv4 / "conf" / interfaces / "rp_filter").write_text("0")
        no_ipv6 = Path("/proc/sys/net/ipv6/conf") / interfaces / "disable_ipv6"
        if no_ipv6.exists():  # else it is not even in the kernel, and sends no stray packets
            no_ipv6.write_text("1")


def _queue_counters(message: Any) -> KernelCounters:
    statistics = message.get_attr("TCA_STATS2")
    sent = statistics.get_attr("TCA_STATS_BASIC")
    queue = statistics.get_attr("TCA_STATS_QUEUE")
    return KernelCounters(
        bytes=sent["bytes"],
        packets=sent["packets"],
        drops=queue["drops"],
        backlog_bytes=queue["backlog"],
    )


def _link_counters(message: Any) -> KernelCounters:
    statistics = message.get_attr("IFLA_STATS64")
    return KernelCounters(
        bytes=statistics["tx_bytes"],
        packets=statistics["tx_packets"],
        drops=statistics["tx_dropped"],
        backlog_bytes=0,
    )


def _explain(error: OSError | NetlinkError) -> str:
    """The cause and the remedy when netns mode is not possible."""
    number = error.code if isinstance(error, NetlinkError) else error.errno
    cause = f"the kernel refused to build the network ({error})"
    if number in (errno.EPERM, errno.EACCES, errno.EROFS):
        return (
            f"{cause}: no permission. Use mode local, run as root, or let users have namespaces: "
            "sysctl -w kernel.unprivileged_userns_clone=1 "
            "kernel.apparmor_restrict_unprivileged_userns=0 (those that this kernel has). In a "
            "container, give it the capability SYS_ADMIN and a writable /proc/sys/net."
        )
    if number in (errno.ENOSPC, errno.EUSERS):
        return (
            f"{cause}: the limit on namespaces is reached. Raise it, sysctl -w "
            "user.max_net_namespaces=65536 user.max_user_namespaces=65536, or use mode local."
        )
    if number in (errno.EMFILE, errno.ENFILE):
        return f"{cause}. Raise the limit on open files (ulimit -n), or use mode local."
    if number == errno.EEXIST:
        return (
            f"{cause}: it has made an interface with the name of a port by itself, as tunnels have "
            "(tunl0, sit0, gre0). Rename the port in the topology."
        )
    if number in (errno.EOPNOTSUPP, errno.ENOENT, errno.EINVAL):
        return (
            f"{cause}: a feature is missing. The kernel needs CONFIG_NET_NS, CONFIG_USER_NS, "
            "CONFIG_VETH and CONFIG_NET_SCH_TBF (modprobe veth sch_tbf), or use mode local."
        )
    return f"{cause}. Use mode local, or see dmesg for the kernel's own words."


class _Holder:
    """Serves the requests of the launcher."""

    def __init__(self, descriptors: socket.socket) -> None:
        self._descriptors = descriptors
        self._network: _Network | None = None

    def build(self, **spec: Any) -> bool:
        """Build the network and send its descriptors; whether there is a user namespace."""
        try:
            self._network = _Network(KernelNetwork.model_validate(spec))
        except (OSError, NetlinkError) as error:
            raise EmulationError(_explain(error)) from error
        fds = self._network.fds
        for start in range(0, len(fds), FDS_PER_MESSAGE):
            some = fds[start : start + FDS_PER_MESSAGE]
            socket.send_fds(self._descriptors, [b"\0"], some)
        self._descriptors.close()
        return self._network.user_namespace_fd is not None

    def counters(self, nodes: Sequence[str]) -> list[tuple[LinkDirection, KernelCounters]]:
        """The kernel's counters of the links' directions that begin at ``nodes``."""
        try:
            return self._built().counters(nodes)
        except (OSError, NetlinkError) as error:
            raise EmulationError(f"the kernel did not give the counters: {error}") from error

    def change(self, **change: Any) -> None:
        """Change a link."""
        try:
            self._built().change(LinkChange.model_validate(change))
        except (OSError, NetlinkError) as error:
            raise EmulationError(f"the kernel did not change the link: {error}") from error

    def _built(self) -> _Network:
        if self._network is None:
            raise EmulationError("there is no network yet")
        return self._network


def _serve(control: socket.socket, descriptors: socket.socket) -> None:
    holder = _Holder(descriptors)
    handlers: dict[str, Handler] = {
        "build": holder.build,
        "counters": holder.counters,
        "change": holder.change,
    }
    for line in control.makefile("rb"):
        reply = reply_to(line, handlers, _WHO)
        control.sendall(reply.encoded(_WHO) + b"\n")


def main() -> None:
    """Serve the launcher until it disconnects."""
    # Each node takes a handful of descriptors, and this process's limit is nobody else's.
    take_all_descriptors()
    control_fd, descriptors_fd = (int(argument) for argument in sys.argv[1:3])
    with socket.socket(fileno=control_fd) as control:
        _serve(control, socket.socket(fileno=descriptors_fd))


if __name__ == "__main__":
    main()
