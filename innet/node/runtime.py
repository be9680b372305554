"""Opens the native node that a configuration file describes, and installs its rules."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from innet._native import _core
from innet.errors import EmulationError
from innet.node.command_keys import command_key_in
from innet.node.link_descriptors import link_descriptors
from innet.node.native_settings import NodeSizes, native_settings, shape_of_face
from innet.node.node_config import (
    FaceConfig,
    NodeConfig,
    SharedMemoryChannel,
    SocketChannel,
)
from innet.security.keys import NodeKeys
from innet.settings import Settings

if TYPE_CHECKING:
    from innet.plans import Rule


def open_node(config: NodeConfig, settings: Settings, keys: NodeKeys) -> _core.Node:
    """Open the node of ``config`` with its links and routes, and start it."""
    node = _core.Node(_node_settings(config, settings), keys.signing_key(), keys.trusted_keys())
    for index, fds in enumerate(link_descriptors(config)):
        _add_link(node, config, settings, index, fds)
    node.start()
    prefer_network_thread(node, config)
    try:
        _set_up(node, config, settings, keys)
    except BaseException:
        node.stop("it could not be set up")
        raise
    return node


def _set_up(node: _core.Node, config: NodeConfig, settings: Settings, keys: NodeKeys) -> None:
    node.authorise_commands(
        [command_key_in(bytes.fromhex(wire)) for wire in keys.commands_by],
        settings.ndn.localhop,
    )
    for prefix in settings.ndn.multicast:
        node.set_strategy(prefix, "/localhost/nfd/strategy/multicast")
    _listen(node, config, settings)  # after the keys for commands: nobody else may configure it
    for index, face in enumerate(config.faces):
        if config.kind == "switch" and face.peer_kind == "host":
            node.bind_face(index, None)  # until a job has that host
    for route in config.routes:
        node.add_route(f"/n/{route.node}", route.face)


def _node_settings(config: NodeConfig, settings: Settings) -> _core.NodeSettings:
    is_switch = config.kind == "switch"
    sizes = NodeSizes(
        seed=config.seed,
        slots=config.slots if is_switch else settings.collectives.host_slots,
        cache_bytes=config.cache_bytes,
        cache_policy=config.cache_policy,
        receive_credit_bytes=config.receive_credit_bytes,
        receive_rate_bps=config.receive_rate_bps,
        links=len(config.faces),
        nodes=len(config.routes) + 1,
    )
    native = native_settings(config.node, settings, sizes)
    native.link_timeout_s = settings.recovery.link_timeout_s
    return native


def _add_link(
    node: _core.Node,
    config: NodeConfig,
    settings: Settings,
    index: int,
    fds: Sequence[int],
) -> None:
    face = config.faces[index]
    channel = face.channel
    # Without a shape, packets bypass the link model.
    shape = shape_of_face(config, index) if face.shape.shaped else None
    receive_buffer_bytes = settings.transport.socket_buffer_bytes
    send_buffer_bytes = _send_buffer_bytes(config, settings, face)
    try:
        if isinstance(channel, SharedMemoryChannel):
            memory_fd, own_event_fd, peer_event_fd = fds
            node.add_shared_memory_link(
                end=channel.end,
                memory_fd=memory_fd,
                own_event_fd=own_event_fd,
                peer_event_fd=peer_event_fd,
                shape=shape,
                trusted=settings.security.trusted_memory and face.trusted,
            )
        elif isinstance(channel, SocketChannel):
            node.add_socket_link(
                fd=fds[0],
                datagram_bytes=face.mtu_bytes,
                receive_buffer_bytes=receive_buffer_bytes,
                send_buffer_bytes=send_buffer_bytes,
                shape=shape,
            )
        else:
            node.add_link(
                local_address=channel.local_address,
                local_port=channel.local_port,
                peer_address=channel.peer_address,
                peer_port=channel.peer_port,
                beside_listener=_listens_on_ip(config, settings),
                datagram_bytes=face.mtu_bytes,
                receive_buffer_bytes=receive_buffer_bytes,
                send_buffer_bytes=send_buffer_bytes,
                shape=shape,
            )
    except RuntimeError as error:
        raise EmulationError(
            f"{config.node} cannot open its link to {face.peer}: {error}. "
            "Is an older run still up? `innet status` lists them, `innet down` ends one."
        ) from error


def _listen(node: _core.Node, config: NodeConfig, settings: Settings) -> None:
    """Let NDN programs connect, where the settings say."""
    try:
        if settings.ndn.unix:
            # An earlier process of this node may still be closing.
            node.listen(f"unix://{config.ndn_socket}", takes_over=True)
        if _listens_on_ip(config, settings):
            for scheme in ("tcp4", "udp4"):
                node.listen(
                    f"{scheme}://0.0.0.0:{settings.ndn.port}",
                    udp_idle_timeout_s=settings.ndn.udp_idle_s,
                    beside_links=True,
                )
    except RuntimeError as error:
        raise EmulationError(
            f"NDN programs could not connect to {config.node}: {error}. Choose another port "
            "(--set ndn.port=...), or none, or no Unix sockets (--set ndn.unix=false)."
        ) from error


def _listens_on_ip(config: NodeConfig, settings: Settings) -> bool:
    # The workers of a host share its addresses with its node.
    return settings.ndn.port is not None and config.mode == "netns" and config.host is None


def _send_buffer_bytes(config: NodeConfig, settings: Settings, face: FaceConfig) -> int:
    """How much may wait in the kernel for a link.

    A host waits for its own link rather than lose packets at it, so its buffer is smaller than the
    queue that a kernel's shaper keeps; a switch's buffer is larger, so that its queue drops as a
    switch's does. On several machines, a switch waits as well, and all links of a node share the
    queue of its machine: half of it, since a message that begins within a buffer may exceed it.
    """
    buffer_bytes = settings.transport.socket_buffer_bytes
    if config.mode == "cluster":
        links = sum(isinstance(other.channel, SocketChannel) for other in config.faces) or 1
        room_bytes = face.queue_bytes // (2 * links)
    elif config.mode == "netns" and config.kind == "host":
        room_bytes = face.queue_bytes * 3 // 4
    else:
        return buffer_bytes
    return min(buffer_bytes, max(room_bytes, 2 * face.mtu_bytes))


def install_rules(node: _core.NodeHandle, group: str, rules: Iterable[Rule]) -> None:
    """Let ``node`` make the sums of ``rules`` under the name prefix ``group``."""
    for rule in rules:
        operands = [(str(operand.interval), f"/n/{operand.node}") for operand in rule.operands]
        ahead_to = [f"/n/{place}" if place else "" for place in rule.ahead_to]
        node.install_rule(group, str(rule.interval), operands, rule.primary, ahead_to)


_SWITCH_NICENESS = -10
_AUTOGROUP = Path("/proc/self/autogroup")
# Above 1, the priority of threads that hash for the network threads (`ParallelHasher`).
_SWITCH_PRIORITY = 3
_HOST_PRIORITY = 2
_THREAD_NICENESS = -10
"""Niceness of network threads in a program's process, in all modes."""


def prefer_this_process() -> None:
    """Let this process, a switch's, run before those of ordinary priority, where that is allowed.

    All hosts' traffic meets in a switch. In a network of machines it has a processor of its own;
    on one machine with fewer cores than nodes, the scheduler would give it the share of one host.
    Linux deals out time between sessions before it looks at niceness (autogroups: sched(7)), so
    both are set.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _SWITCH_NICENESS)
    with contextlib.suppress(OSError):
        _AUTOGROUP.write_text(str(_SWITCH_NICENESS))


@contextlib.contextmanager
def network_threads(processors: Collection[int]) -> Iterator[None]:
    """Let threads that the calling thread starts here serve the network while others compute.

    A thread inherits processors and niceness of the one that starts it. Engines, and OpenMP with
    ``OMP_PROC_BIND``, bind a program's main thread to a processor for computing; a network thread
    bound to the same one, or behind a dozen others of the program, waits there for up to seconds on
    a busy machine. So it may use all ``processors``, if any are given, and comes before the
    program's own threads where that is allowed.
    """
    own, niceness = os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0)
    with contextlib.suppress(OSError):  # this machine, or container, has none of them any more
        os.sched_setaffinity(0, processors or own)
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, min(niceness, _THREAD_NICENESS))
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, niceness)
        os.sched_setaffinity(0, own)


def prefer_network_thread(node: _core.Node, config: NodeConfig) -> None:
    """Give the network thread of a started node real-time priority, if allowed; not in local mode.

    On machines of its own, a host's network card interrupts programs that compute, and so do the
    kernel's forwarding and TCP. In ``local`` mode the kernel does not clock the links.
    """
    if config.mode != "local":
        is_switch = config.kind == "switch"
        node.set_realtime_priority(_SWITCH_PRIORITY if is_switch else _HOST_PRIORITY)
