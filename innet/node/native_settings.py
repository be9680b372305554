"""The settings, table sizes and links of a node, as the packet path takes them."""

from __future__ import annotations

from dataclasses import dataclass

from innet._native import _core
from innet.node.node_config import LinkShape, NodeConfig
from innet.settings import Settings

_LINKS_OF_A_SMALL_NODE = 8


@dataclass(frozen=True)
class NodeSizes:
    """The sizes of a node, which distinguish it from the others of its run.

    Attributes:
        seed: of its random numbers.
        slots: concurrent reductions.
        cache_bytes: size of its content store; 0: none.
        cache_policy: of its content store.
        receive_credit_bytes: bytes that its links can hold on the way to it; 0: unlimited.
        receive_rate_bps: rate at which its links carry answers to it; 0: unlimited.
        links: how many it has.
        nodes: how many its network has.
        virtual_scale: bytes for which each byte of an array stands, in a simulation.
    """

    seed: int = 1
    slots: int = 0
    cache_bytes: int = 0
    cache_policy: str = "lru"
    receive_credit_bytes: int = 0
    receive_rate_bps: float = 0.0
    links: int = 0
    nodes: int = 1
    virtual_scale: int = 1


def native_settings(node: str, settings: Settings, sizes: NodeSizes) -> _core.NodeSettings:
    """The settings of ``node``: its own sizes, and the timers that all nodes of a run share."""
    result = _core.NodeSettings()
    result.own_name = f"/n/{node}"
    result.seed = sizes.seed
    result.reduction_slots = sizes.slots
    result.cache_bytes = sizes.cache_bytes
    result.virtual_scale = sizes.virtual_scale
    result.cache_policy = sizes.cache_policy
    result.receive_credit_bytes = sizes.receive_credit_bytes
    result.receive_rate_bps = sizes.receive_rate_bps
    transport = settings.transport
    result.pit_capacity = _pit_capacity(transport.pit_capacity, sizes.links)
    result.evaluation_window = _evaluation_window(transport.pit_capacity, sizes.nodes)
    result.interest_lifetime_s = transport.interest_lifetime_s
    result.min_rto_s = transport.min_rto_s
    result.max_rto_s = transport.max_rto_s
    result.timeouts_before_self_evaluation = transport.timeouts_before_self_evaluation
    result.link_repetition = transport.link_repetition
    result.initial_window = transport.initial_window
    result.max_window = transport.max_window
    result.target_queue_delay_s = transport.target_queue_delay_s
    return result


def _pit_capacity(least: int, links: int) -> int:
    """Pending Interests of a node: ``least`` with up to 8 links, and as many for each with more.

    >>> _pit_capacity(65536, 64)
    524288
    """
    return least * max(_LINKS_OF_A_SMALL_NODE, links) // _LINKS_OF_A_SMALL_NODE


def _evaluation_window(least_pit_capacity: int, nodes: int) -> int:
    """Segments that a host may add at once, so that its switch has room for all their operands.

    In a ring, each segment waits at every host, whose Interest is pending at the host's switch:
    ``nodes * links * window`` Interests when all hosts add as many segments as they may. This must
    be at most half of the three quarters of its table that a switch has for requests: in a full
    table, sums in progress wait for sums that cannot begin.
    """
    return max(1, 3 * least_pit_capacity // (8 * _LINKS_OF_A_SMALL_NODE * nodes))


def native_shape(shape: LinkShape, seed: int, *, burst_bytes: int = 0) -> _core.LinkShape:
    """The model of one direction of a link; the kernel's token bucket lets ``burst_bytes`` pass."""
    port = _core.PortShape(
        rate_bps=shape.rate_bps,
        delay_s=shape.delay_s,
        loss=shape.loss,
        queue_bytes=shape.queue_bytes,
        mark_bytes=shape.mark_bytes,
        burst_bytes=burst_bytes,
        seed=seed,
    )
    return _core.LinkShape(
        port,
        jitter_s=shape.jitter_s,
        reorder=shape.reorder,
        reorder_delay_s=shape.reorder_delay_s,
        duplicate=shape.duplicate,
        corrupt=shape.corrupt,
    )


def shape_of_face(config: NodeConfig, face: int, shape: LinkShape | None = None) -> _core.LinkShape:
    """The model of the link at a node's face; ``shape``: another one than the configured."""
    return native_shape(shape or config.faces[face].shape, config.seed * 1009 + face)
