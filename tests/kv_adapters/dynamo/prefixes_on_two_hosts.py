"""A worker of a real run: both ranks keep prompts, and rank 0 compares whom two indexes name.

Arguments: the first of five free ports, and the salt of the prompts.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

import innet
from innet.collectives import Communicator
from innet.kv.events.endpoints import Endpoints
from innet.kv.events.follower import Stream
from innet.kv.events.service import PoolDirectory, following
from innet.kv.model import ModelIdentity
from tests.kv_adapters.dynamo.indexer import (
    BLOCK,
    MODEL_NAME,
    POLL_S,
    DynamosIndex,
    Prefixes,
    running,
)

FIRST_PORT, SALT = int(sys.argv[1]), sys.argv[2]
MODEL: Final = ModelIdentity(
    architecture="llama", weights="tiny@1", compute="f32", cache_type="f32",
    layers=2, kv_heads=1, head_dim=2,
)  # fmt: skip
LONG: Final = list(range(1000, 1000 + 9 * BLOCK))
FORK: Final = [*LONG[: 3 * BLOCK], *range(7 * BLOCK)]
SHORT: Final = list(range(5000, 5000 + 2 * BLOCK))
PROMPTS: Final = (LONG, FORK, SHORT, LONG[: 5 * BLOCK], LONG[1:])
PATIENCE_S: Final = 60.0


def computed(tokens: Sequence[int]) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.zeros((2, 2, len(tokens), 1, 2), np.float32)


def has_lost(found: Sequence[Prefixes]) -> bool:
    """Whether what was evicted is gone, and what was put meanwhile is there."""
    longest = max(tokens for _, tokens in found[0].values())
    return longest == 6 * BLOCK and any(found[2].values())


class Comparison:
    """Both indexes, and blocks that let each publisher say something more."""

    def __init__(self, pool: innet.KVPool, ours: PoolDirectory, theirs: DynamosIndex) -> None:
        self._pool = pool
        self._ours = ours
        self._theirs = theirs
        self._beats = 0

    async def say(self, what: str, is_wanted: Callable[[list[Prefixes]], bool]) -> None:
        """Print what both find; Dynamo's asks for lost messages when the next one comes."""
        async with asyncio.timeout(PATIENCE_S):
            while (found := self._found()) != self._found_by_theirs() or not is_wanted(found):
                self._beats += 1
                beats = [[self._beats, each] * (BLOCK // 2) for each in range(8)]
                await self._pool.put_many([(beat, computed(beat)) for beat in beats])
                await asyncio.sleep(POLL_S)
        print(what, found, flush=True)

    def _found(self) -> list[Prefixes]:
        return [
            {
                each.member: (each.memory_tokens, each.tokens)
                for each in self._ours.index.locate(MODEL_NAME, prompt, salt=SALT).holdings
                if each.tokens
            }
            for prompt in PROMPTS
        ]

    def _found_by_theirs(self) -> list[Prefixes]:
        return [self._theirs.prefixes(prompt, SALT) for prompt in PROMPTS]


async def compare(comm: Communicator, pool: innet.KVPool, streams: Sequence[Stream]) -> None:
    ours = PoolDirectory()
    async with running(FIRST_PORT + 4, streams) as theirs, following(ours, streams):
        comparison = Comparison(pool, ours, theirs)
        await comparison.say("kept", lambda found: any(found[0].values()))
        for _ in range(2):
            comm.barrier()  # the other rank loads between them
        await comparison.say("loaded", lambda found: found[0]["h1"][1] == len(LONG))
        theirs.listen("pause")
        await pool.evict(LONG, first_token=6 * BLOCK)
        await pool.put(SHORT, computed(SHORT))
        theirs.listen("resume")
        await comparison.say("lost", lambda found: has_lost(found))


def main() -> None:
    comm = innet.init()
    streams = [
        Stream(f"h{rank}", Endpoints.of(f"tcp://127.0.0.1:{FIRST_PORT + 2 * rank}"))
        for rank in range(comm.size)
    ]
    pool = innet.KVPool(
        MODEL, block_tokens=BLOCK, salt=SALT, offered_memory="8MiB", model_name=MODEL_NAME,
        events=streams[comm.rank].endpoints.events,
    )  # fmt: skip
    pool.blocking.members(at_least=2)
    comm.barrier()
    mine = (LONG, FORK)[comm.rank]
    pool.blocking.put(mine, computed(mine))
    comm.barrier()
    pool.blocking.exists_many(PROMPTS)  # a member that looks prompts up knows their tokens
    comm.barrier()
    if comm.rank == 0:
        asyncio.run(compare(comm, pool, streams))
    else:
        comm.barrier()
        for _ in range(2):  # what is used twice stays in memory
            pool.blocking.get_longest_prefix(LONG)
        comm.barrier()
    comm.barrier()


main()
