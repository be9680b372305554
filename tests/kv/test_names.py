"""Names and hashes of blocks: the exact bytes, and what tells blocks apart."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.errors import KVError
from innet.kv.hash_chain import block_hash, chain, root_hash
from innet.kv.names import BlockFamily, tenant_component

TOKENS = st.lists(st.integers(0, 2**32), max_size=40)


def test_the_bytes_that_are_hashed_are_those_documented() -> None:
    parent = root_hash("0")
    assert parent == hashlib.sha256(bytes.fromhex("6130")).digest()
    numbers = bytes.fromhex("01 17 1818 18ff 190100 1a00010000 1b0000000100000000")
    encoded = b"\x83\x58\x20" + parent + b"\x87" + numbers + b"\xf6"
    tokens = [1, 23, 24, 255, 256, 1 << 16, 1 << 32]
    assert block_hash(parent, tokens) == hashlib.sha256(encoded).digest()


def test_hashes_are_those_of_a_cbor_library() -> None:
    # Computed with cbor2 in its canonical form and hashlib, as vLLM's sha256_cbor does.
    expected = {
        block_hash(root_hash("0"), [1, 2, 3]): "cda40c7574ea4613",
        block_hash(root_hash("0"), range(512), ("salt",)): "f7ec3ffa3e71ca49",
    }
    assert {digest.hex()[:16] for digest in expected} == set(expected.values())


@given(TOKENS, TOKENS, st.integers(1, 7))
def test_prompts_share_the_hashes_of_their_common_full_blocks_and_no_more(
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


@pytest.mark.parametrize("tokens", [[-1], [1 << 64]])
def test_what_is_no_token_is_refused(tokens: list[int]) -> None:
    with pytest.raises(KVError, match="token id"):
        block_hash(root_hash(), tokens)


def test_what_would_make_a_block_wrong_is_in_its_name() -> None:
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
def test_what_cannot_stand_in_a_name_is_refused(
    family: tuple[str, str, str, int, int], message: str
) -> None:
    with pytest.raises(KVError, match=message):
        BlockFamily(*family)
