"""NVIDIA Dynamo's own indexer follows a pool, and finds the prefixes that our index finds."""

from __future__ import annotations

import ast
import asyncio

import pytest

pytest.importorskip("dynamo.llm", reason="Dynamo is not installed here: `make kv-adapters` has it")

from innet.kv.events.endpoints import Endpoints
from innet.kv.events.follower import Stream
from innet.kv.events.publisher import publishing
from innet.kv.events.source import BlockEvents
from innet.kv.names import BlockFamily
from innet.kv.pool.store import Tier
from tests.kv_adapters.dynamo.indexer import BLOCK, MODEL_NAME, POLL_S, SALT_TAG, running
from tests.kv_adapters.running import free_ports, run_on_two_hosts


@pytest.mark.timeout(300)
@pytest.mark.parametrize("salt", ["", f"{SALT_TAG}acme"])
def test_dynamos_indexer_finds_what_ours_finds(salt: str) -> None:
    """Live messages, a late start and lost messages; the program compares each member's prefixes
    of five prompts, in memory and on any medium, and prints them when they are equal."""
    arguments = ["-m", "tests.kv_adapters.dynamo.prefixes_on_two_hosts", str(free_ports(5)), salt]
    said = run_on_two_hosts(arguments)
    found = [line.split(" ", 1) for line in said["h0"] if line.endswith("]") and " [{" in line]
    assert [what for what, _ in found] == ["kept", "loaded", "lost"], said
    assert not any(ast.literal_eval(each)[4] for _, each in found)  # a prompt that nobody has


@pytest.mark.timeout(120)
async def test_dynamos_indexer_finds_full_attention_in_any_group_and_no_windows() -> None:
    first = free_ports(3)
    endpoints = Endpoints.of(f"tcp://127.0.0.1:{first}")
    events = BlockEvents("h0", MODEL_NAME)
    prompts = {}
    for layout, token in (("x-g0w512-f32-16", 1), ("x-g1-f32-16", 2)):
        prompts[layout] = [token] * BLOCK
        family = BlockFamily("a1b2", "00ff", layout, 0, 1)
        events.describe(family, [bytes([token] * 32)], prompts[layout], BLOCK)
        events.on_tier(0, family.name(bytes([token] * 32)), Tier.MEMORY)
    async with (
        publishing(events, endpoints),
        running(first + 2, [Stream("h0", endpoints)]) as index,
    ):
        number = 0
        window, full = prompts.values()
        while index.prefixes(full) != {"h0": (BLOCK, BLOCK)}:
            number += 1  # a message after which it asks for those before
            events.on_tier(0, family.name(number.to_bytes(32, "big")), Tier.MEMORY)
            await asyncio.sleep(POLL_S)
        assert index.prefixes(window) == {}
