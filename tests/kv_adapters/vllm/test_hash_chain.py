"""The hashes of prompts' blocks are those that vLLM itself computes."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed here: `make kv-adapters` tests with it")

from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256_cbor
from vllm.v1.core import kv_cache_utils
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, hash_block_tokens, init_none_hash
from vllm.v1.request import Request

from innet.kv import hash_chain


def hashes(tokens: list[int], block_tokens: int, **request: Any) -> list[bytes]:
    """As vLLM gives them to a request."""
    made = Request(
        request_id="0",
        prompt_token_ids=tokens,
        sampling_params=SamplingParams(max_tokens=1),
        pooling_params=None,
        block_hasher=get_request_block_hasher(block_tokens, sha256_cbor),
        **request,
    )
    return [bytes(block) for block in made.block_hashes]


@pytest.mark.parametrize("seed", [None, "0", "42"])
def test_the_root_is_vllms(seed: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed is None:
        monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    else:
        monkeypatch.setenv("PYTHONHASHSEED", seed)
    init_none_hash(sha256_cbor)
    ours = hash_chain.root_hash() if seed is None else hash_chain.root_hash(seed)
    assert ours == kv_cache_utils.NONE_HASH


@pytest.mark.parametrize("block_tokens", [1, 4, 16])
@pytest.mark.parametrize("salt", ["", "a salt"])
def test_a_prompts_hashes_are_vllms(
    block_tokens: int, salt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    init_none_hash(sha256_cbor)
    # Each length of an integer in CBOR: 1, 2, 3, 5 and 9 bytes.
    tokens = [0, 23, 24, 255, 256, 65535, 65536, 2**32 - 1, 2**32, *range(60)]
    ours = hash_chain.chain(tokens, block_tokens, root=hash_chain.root_hash(), salt=salt)
    assert list(ours) == hashes(tokens, block_tokens, cache_salt=salt or None)


def test_a_blocks_hash_is_vllms() -> None:
    parent = bytes(range(32))
    assert list(hash_chain.chain([1, 2, 3], 3, root=parent)) == [
        hash_block_tokens(sha256_cbor, parent, [1, 2, 3])
    ]
