"""The settings and table sizes of a node, as the packet path takes them."""

from __future__ import annotations

from innet._native import _core
from innet.settings import Settings


def native_settings(
    node: str,
    settings: Settings,
    *,
    seed: int,
    slots: int,
    cache_bytes: int,
    cache_policy: str,
    virtual_scale: int = 1,
) -> _core.NodeSettings:
    """What ``node`` is made with: its own sizes, and the timers that all nodes of a run share.

    In a simulation, a byte of an array may stand for ``virtual_scale`` bytes.
    """
    result = _core.NodeSettings()
    result.own_name = f"/n/{node}"
    result.seed = seed
    result.reduction_slots = slots
    result.cache_bytes = cache_bytes
    result.virtual_scale = virtual_scale
    result.cache_policy = cache_policy
    transport = settings.transport
    result.pit_capacity = transport.pit_capacity
    result.interest_lifetime_s = transport.interest_lifetime_s
    result.min_rto_s = transport.min_rto_s
    result.max_rto_s = transport.max_rto_s
    result.timeouts_before_self_evaluation = transport.timeouts_before_self_evaluation
    result.initial_window = transport.initial_window
    result.max_window = transport.max_window
    result.target_queue_delay_s = transport.target_queue_delay_s
    return result


_LINKS_OF_A_SMALL_NODE = 8


def pit_capacity(least: int, links: int) -> int:
    """Pending Interests of a node: ``least`` with up to 8 links, and as many for each with more.

    >>> pit_capacity(65536, 64)
    524288
    """
    return least * max(_LINKS_OF_A_SMALL_NODE, links) // _LINKS_OF_A_SMALL_NODE


def evaluation_window(least_pit_capacity: int, nodes: int) -> int:
    """Segments that a host may add at once, so that its switch has room for all their operands.

    Round a ring, each segment waits at every host, whose Interest is pending at the host's switch:
    ``nodes * links * window`` of them when all hosts add as many as they may. That shall be half of
    the three quarters of its table that a switch has for requests; where none is left, sums that
    were begun wait for others that cannot begin.
    """
    return max(1, 3 * least_pit_capacity // (8 * _LINKS_OF_A_SMALL_NODE * nodes))
