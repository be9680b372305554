"""A worker that shares prompts: rank 0 has computed one, rank 1 asks for it and is never closed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import numpy as np

import innet
from innet.errors import KVError
from innet.kv.layout import KVArray
from innet.kv.model import ModelIdentity

MODEL = ModelIdentity(
    architecture="llama", weights="tiny@1", compute="bf16", cache_type="bf16",
    layers=4, kv_heads=2, head_dim=64,
)  # fmt: skip
TOKENS = range(500, 600)
BLOCKS_TOKENS = 96
SECRET = Path(sys.argv[1])


def computed() -> KVArray:
    """What both ranks know, so that either can compare."""
    values = np.random.default_rng(1).standard_normal((4, 2, len(TOKENS), 2, 64))
    return values.astype(MODEL.dtype)


async def load(pool: innet.KVPool) -> None:
    """All ways to get a prefix."""
    found, kv = await pool.get_longest_prefix([*TOKENS, 7], deadline_s=30.0)
    same = kv.tobytes() == computed()[:, :, :BLOCKS_TOKENS].tobytes()
    print(f"found {found} tokens, the same: {same}", flush=True)
    layers = [(part.layers.first, part.tokens) async for part in pool.layers(TOKENS)]
    print(f"layers: {layers}", flush=True)
    other = innet.KVPool(MODEL, tenant="acme", secret=b"another secret of 16 bytes or more")
    print(f"with another secret: {await other.exists(TOKENS)}", flush=True)
    places = (await pool.statistics()).blocks.hits
    print(f"places: {sorted(place.value for place in places)}", flush=True)


def opened(rank: int) -> innet.KVPool:
    """The pool, to which rank 0 offers a memory and a disk."""
    return innet.KVPool(
        MODEL,
        block_tokens=32,
        layers_per_block=2,
        tenant="acme",
        secret=SECRET,
        offered_memory="8MiB" if rank == 0 else 0,
        offered_disk="8MiB" if rank == 0 else 0,
        folder=SECRET.parent / "blocks",
    )


comm = innet.init()
pool = opened(comm.rank)
assert pool.blocking.members(at_least=1) == ("h0",)
if comm.rank == 0:
    print(f"put {pool.blocking.put(TOKENS, computed())} tokens", flush=True)
    try:
        opened(comm.rank)
    except KVError as error:
        print(error, flush=True)
comm.barrier()
if comm.rank == 1:
    asyncio.run(load(pool))
comm.barrier()
