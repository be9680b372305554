"""Names and hashes of blocks: the exact bytes, and what tells blocks apart."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.errors import KVError
from innet.kv.hash_chain import chain, root_hash
from innet.kv.names import BlockFamily, tenant_component

TOKENS = st.lists(st.integers(0, 2**32), max_size=40)


def test_the_hashed_bytes_are_as_documented() -> None:
    parent = root_hash("0")
    assert parent == hashlib.sha256(bytes.fromhex("6130")).digest()
    numbers = bytes.fromhex("01 17 1818 18ff 190100 1a00010000 1b0000000100000000")
    encoded = b"\x83\x58\x20" + parent + b"\x87" + numbers + b"\xf6"
    tokens = [1, 23, 24, 255, 256, 1 << 16, 1 << 32]
    assert list(chain(tokens, 7, root=parent)) == [hashlib.sha256(encoded).digest()]


@pytest.mark.parametrize(
    ("tokens", "salt", "expected"),
    [
        ([1, 2, 3], "", "e1af50ac0c00965b5980f03c1ec32a46e34ef9fcb43f2ee8b75f1d0f08813da7"),
        (
            range(512),
            "salt",
            "1bc66f70c86a9c48916ed8429549c67f0bf01d0406b0b8703a29feca3bba3654",
        ),
        (
            [0, 23, 24, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**64 - 1],
            "",
            "d0631411d6e1f3ca1161afcf84d3f379430a70a9a9f2bba91df1e78b98464356",
        ),
    ],
)
def test_hashes_equal_those_of_vllm(tokens: Sequence[int], salt: str, expected: str) -> None:
    # Computed by hash_block_tokens(sha256_cbor, ...) of vLLM 0.33.0 itself.
    [block] = chain(tokens, len(tokens), root=root_hash(), salt=salt)
    assert block.hex() == expected


def test_the_chain_of_a_prompt_equals_that_of_vllm() -> None:
    # As above, the third block of 16.
    expected = "117dad852830e0103c12d7c7f8b7cf58434ea8751d1f42ee07b1c93711e4da6c"
    for tokens in (range(50), np.arange(50), np.arange(50, dtype=np.uint8)):
        assert [digest.hex() for digest in chain(tokens, 16, root=root_hash())][2:] == [expected]


@given(TOKENS, TOKENS, st.integers(1, 7))
def test_prompts_share_only_the_hashes_of_their_common_full_blocks(
    first: list[int], second: list[int], block_tokens: int
) -> None:
    one, other = (list(chain(p, block_tokens, root=root_hash())) for p in (first, second))
    assert len(one) == len(first) // block_tokens
    for number, (a, b) in enumerate(zip(one, other, strict=False), 1):
        same = first[: number * block_tokens] == second[: number * block_tokens]
        assert (a == b) == same


def test_a_salt_changes_all_hashes() -> None:
    plain = list(chain(range(8), 2, root=root_hash()))
    salted = list(chain(range(8), 2, root=root_hash(), salt="s"))
    assert not set(plain) & set(salted)


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20), st.integers(1, 5))
def test_a_chain_has_the_hashes_of_its_blocks(tokens: list[int], block_tokens: int) -> None:
    parent = root_hash()
    for number, digest in enumerate(chain(tokens, block_tokens, root=parent)):
        block = tokens[number * block_tokens :][:block_tokens]
        [parent] = chain(block, block_tokens, root=parent)
        assert digest == parent


@pytest.mark.parametrize("tokens", [[-1], [1 << 64], [0, 2**64 - 1, -1], [1.5], ["a"], [[1], [2]]])
def test_invalid_tokens_are_refused(tokens: list[int]) -> None:
    with pytest.raises(KVError, match="token id"):
        list(chain(tokens, len(tokens), root=root_hash()))


def test_everything_that_determines_a_block_is_in_its_name() -> None:
    tenant = tenant_component("acme", b"salt")
    families = [
        BlockFamily(tenant, "00", "bf16", 0, 8),
        BlockFamily(tenant_component("acme", b"pepper"), "00", "bf16", 0, 8),
        BlockFamily(tenant, "01", "bf16", 0, 8),
        BlockFamily(tenant, "00", "fp8", 0, 8),
        BlockFamily(tenant, "00", "bf16", 8, 16),
    ]
    names = {family.name(bytes(32)) for family in families}
    assert len(names) == len(families)
    assert families[0].name(bytes(32)) == f"/kv/{tenant}/00/bf16/0-7/{'00' * 32}"


@pytest.mark.parametrize(
    ("family", "message"),
    [
        (("Acme", "00", "bf16", 0, 8), "tenant"),
        (("aa", "xyz", "bf16", 0, 8), "model digest"),
        (("aa", "00", "a/b", 0, 8), "layout"),
        (("aa", "00", "bf16", 8, 8), "layers"),
    ],
)
def test_invalid_parts_of_names_are_refused(
    family: tuple[str, str, str, int, int], message: str
) -> None:
    with pytest.raises(KVError, match=message):
        BlockFamily(*family)
