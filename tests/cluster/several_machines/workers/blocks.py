"""A pool of blocks: rank 0 puts prompts, rank 1 counts those that it gets, the others offer memory.

blocks.py FOLDER: rank 0 puts again when ``again`` is there, and all end when ``stop`` is.
"""

import sys
import time
from pathlib import Path

import numpy as np

import innet
from innet.kv.model import ModelIdentity
from innet.worker import current_worker

PROMPTS = 40
PAUSE_S = 0.05
MODEL = ModelIdentity(
    architecture="llama", weights="tiny@1", compute="f32", cache_type="f32",
    layers=2, kv_heads=1, head_dim=64,
)  # fmt: skip

folder = Path(sys.argv[1])
rank = current_worker().rank
memory = "64MiB" if rank == 0 else 0
pool = innet.KVPool(MODEL, tenant="acme", memory=memory, offered_memory="64MiB")
pool.blocking.members(at_least=3)
prompts = [list(range(1000 * number, 1000 * number + 16)) for number in range(PROMPTS)]
contents = [np.full((2, 2, 16, 1, 64), number, np.float32) for number in range(PROMPTS)]


def found() -> int:
    """How many prompts there are, with what was put."""
    count = 0
    for tokens, expected in zip(prompts, contents, strict=True):
        tokens_found, kv = pool.blocking.get_longest_prefix(tokens)
        if tokens_found:
            assert np.array_equal(kv, expected)
            count += 1
    return count


put_before = False
while not (folder / "stop").exists():
    again = (folder / "again").exists()
    if rank == 0 and (not put_before or again):
        for tokens, kv in zip(prompts, contents, strict=True):
            pool.blocking.put(tokens, kv)
        put_before = True
    elif rank == 1:
        print(f"got {found()} of {PROMPTS}", flush=True)
    time.sleep(PAUSE_S)
