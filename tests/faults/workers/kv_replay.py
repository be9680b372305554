"""Serves prompts from a pool again and again, computes what is missed, and says what it was told.

kv_replay.py STOP [FOLDER [HOST LIMIT_BYTES]]: until the file STOP exists. With a folder, homes have
most blocks on disks there, for who knows the secret in it; on HOST no file can grow further than to
LIMIT_BYTES.
"""

from __future__ import annotations

import os
import random
import resource
import sys
import time
from pathlib import Path

import numpy as np

import innet
from innet.kv.layout import KVArray
from innet.kv.model import ModelIdentity

LAYERS, HEADS, HEAD_DIM, BLOCK_TOKENS = 2, 2, 32, 8
MODEL = ModelIdentity(
    architecture="llama", weights="tiny@1", compute="f32", cache_type="f32",
    layers=LAYERS, kv_heads=HEADS, head_dim=HEAD_DIM,
)  # fmt: skip
SHARED_TOKENS, OWN_TOKENS, PROMPTS = 24, 24, 12
PAUSE_S = 0.01
DEADLINE_S = 2.0

stop = Path(sys.argv[1])
rank = int(os.environ["RANK"])
VOCABULARY = np.random.default_rng(0).standard_normal(
    (LAYERS, 2, 1000, HEADS, HEAD_DIM), np.float32
)


def prompt(number: int) -> list[int]:
    """All begin alike."""
    own = 100 + OWN_TOKENS * number
    return [*range(SHARED_TOKENS), *range(own, own + OWN_TOKENS)]


def computed(tokens: list[int]) -> KVArray:
    """Keys and values as any rank computes them."""
    return np.ascontiguousarray(VOCABULARY[:, :, tokens]).astype(MODEL.dtype)


def open_pool() -> innet.KVPool:
    if len(sys.argv) == 2:
        return innet.KVPool(MODEL, block_tokens=BLOCK_TOKENS, memory=0, offered_memory="8MiB")
    folder = Path(sys.argv[2])
    return innet.KVPool(
        MODEL,
        block_tokens=BLOCK_TOKENS,
        memory=0,
        offered_memory="16KiB",
        offered_disk="8MiB",
        folder=folder,
        secret=folder / "secret",
    )


def fill_disk(host: str, limit_bytes: int) -> None:
    """From now on writing fails on that host as where a disk is full, if with another number."""
    if rank == int(host.removeprefix("h")):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, resource.RLIM_INFINITY))


def serve(pool: innet.KVPool, number: int) -> str:
    """The outcome of a prompt."""
    tokens = prompt(number)
    found, kv = pool.blocking.get_longest_prefix(tokens, deadline_s=DEADLINE_S)
    if not np.array_equal(kv, computed(tokens)[:, :, :found]):
        return f"wrong bytes in prompt {number}"
    if found == len(tokens):
        return "whole"
    pool.blocking.put(tokens, computed(tokens)[:, :, found:], first_token=found)
    return f"missed {len(tokens) - found}"


draw = random.Random(rank)
with open_pool() as pool:
    if len(sys.argv) == 5:
        fill_disk(sys.argv[3], int(sys.argv[4]))
    pool.blocking.members(at_least=int(os.environ["WORLD_SIZE"]))
    while not stop.exists():
        print(serve(pool, draw.randrange(PROMPTS)), flush=True)
        time.sleep(PAUSE_S)
    blocks = pool.blocking.statistics().blocks
    failed = sum(tier.failed for tier in blocks.tiers.values())
    damaged = sum(tier.damaged for tier in blocks.tiers.values())
    print(f"disk: {failed} failed, {damaged} damaged", flush=True)
