"""The settings of a run as the packet path takes them, for one node."""

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
