"""Who joins a pool: blocks go elsewhere, and are looked for elsewhere, without some members."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from innet.kv.pool.network import BlockNetwork

_PAUSE_S: Final = 0.01
"""Between looks: the network tells nobody of a change."""


async def await_members(
    network: BlockNetwork, enough: Callable[[Mapping[str, int]], bool], timeout_s: float
) -> bool:
    """Wait until the members, with what they offer in bytes, are ``enough``; whether they are."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + timeout_s
    while not enough(network.members()):
        if loop.time() >= end_s:
            return False
        await asyncio.sleep(_PAUSE_S)
    return True
