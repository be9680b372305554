"""Sizes of a node's tables and windows, by its number of links and of nodes."""

from __future__ import annotations

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
