"""The processor's shares of the nodes of an emulated network, as far as root gives them."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from innet._native import _core
from innet.node.node_config import NodeConfig

_NICENESS = -10
_AUTOGROUP = Path("/proc/self/autogroup")
_SWITCH_PRIORITY = 2
_HOST_PRIORITY = 1


def prefer_this_process() -> None:
    """Let this process, a switch's, run before those of ordinary priority, where that is allowed.

    All hosts' traffic meets in a switch. In a network of machines it has a processor of its own;
    on one machine with fewer cores than nodes, the scheduler would give it the share of one host.
    Linux deals out time between sessions before it looks at niceness (autogroups: sched(7)), so
    both are set.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)
    with contextlib.suppress(OSError):
        _AUTOGROUP.write_text(str(_NICENESS))


def prefer_network_thread(node: _core.Node, config: NodeConfig) -> None:
    """Let a started node of ``netns`` mode move packets before programs compute, where allowed.

    As a network card's interrupts do, and the kernel's own forwarding and TCP: there a program
    that computes keeps no packet waiting, on whichever host it is. Other modes' links are not
    clocked by the kernel, and have no such hosts.
    """
    if config.mode == "netns":
        is_switch = config.kind == "switch"
        node.set_realtime_priority(_SWITCH_PRIORITY if is_switch else _HOST_PRIORITY)
