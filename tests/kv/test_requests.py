"""Names of blocks and of requests: they say all that they were made of, and nothing else is one."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet._native import _core
from innet.errors import KVError
from innet.kv.names import BlockFamily, BlockKey
from innet.kv.pool.requests import (
    Drop,
    Keep,
    Note,
    Offer,
    Pin,
    PoolRequest,
    Unpin,
    is_request,
    requests_prefix,
)

HEXADECIMAL = st.from_regex(r"[0-9a-f]{2,40}", fullmatch=True)
NODES = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,31}", fullmatch=True)
NUMBERS = st.integers(0, 10**9 - 1)
LAYERS = st.tuples(st.integers(0, 300), st.integers(1, 300)).map(lambda pair: (pair[0], sum(pair)))
FAMILIES = st.builds(
    lambda tenant, digest, layout, layers: BlockFamily(tenant, digest, layout, *layers),
    HEXADECIMAL,
    HEXADECIMAL,
    st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True),
    LAYERS,
)
BLOCKS = st.builds(BlockKey, FAMILIES, st.binary(min_size=32, max_size=32))
HASHES = st.binary(min_size=32, max_size=32)


def keep_of(block: BlockKey, depth: int, source: str, more: list[tuple[Any, bytes, int]]) -> Keep:
    family = block.family
    families = [
        BlockFamily(family.tenant, family.model_digest, family.layout, *layers)
        for layers, _, _ in more
    ]
    others = [(BlockKey(f, h), d) for f, (_, h, d) in zip(families, more, strict=True)]
    return Keep(((block, depth), *others), source)


KEEPS = st.builds(
    keep_of, BLOCKS, NUMBERS, NODES, st.lists(st.tuples(LAYERS, HASHES, NUMBERS), max_size=3)
)
ACTIONS = st.one_of(
    KEEPS,
    st.builds(Note, BLOCKS, NUMBERS, NODES),
    st.builds(Offer, BLOCKS, NUMBERS, NODES, NUMBERS),
    st.builds(Pin, BLOCKS, NUMBERS),
    st.builds(Unpin, BLOCKS),
    st.builds(Drop, BLOCKS),
)
REQUESTS = st.builds(
    PoolRequest, NODES, NODES, st.from_regex(r"[0-9a-f]{1,64}", fullmatch=True), ACTIONS
)
BLOCK = BlockKey(BlockFamily("a1b2", "00ff", "bf16", 0, 8), bytes(32))


@given(BLOCKS)
def test_a_block_is_read_from_its_name(block: BlockKey) -> None:
    assert BlockKey.parse(block.name) == block
    assert not is_request(block.name)


@given(REQUESTS)
def test_a_request_is_read_from_its_name_on_the_wire(request: PoolRequest) -> None:
    assert PoolRequest.parse(str(_core.Name(request.name))) == request
    assert is_request(request.name)


@given(REQUESTS, REQUESTS)
def test_different_requests_have_different_names(one: PoolRequest, other: PoolRequest) -> None:
    assert (one.name == other.name) == (one == other)


@given(REQUESTS, st.data())
def test_malformed_names_are_refused_and_valid_ones_are_canonical(
    request: PoolRequest, data: st.DataObject
) -> None:
    name = request.name
    start = data.draw(st.integers(0, len(name)))
    end = data.draw(st.integers(start, len(name)))
    garbled = name[:start] + data.draw(st.text(max_size=4)) + name[end:]
    for read in (PoolRequest.parse, BlockKey.parse):
        with contextlib.suppress(KVError):
            assert read(garbled).name == garbled


def read_by_node(name: str, prefix: str) -> Any:
    """Asker, source and blocks of a request to keep, as nodes read it."""
    try:
        return _core.read_keep_request(_core.Name(name), _core.Name(prefix))
    except ValueError:  # it is no name at all
        return None


def read_by_home(name: str) -> Any:
    """The same as a home reads it."""
    try:
        request = PoolRequest.parse(name)
    except KVError:
        return None
    if not isinstance(request.action, Keep):
        return None
    blocks = [(block.name, depth) for block, depth in request.action.blocks]
    return request.requester, request.action.source, blocks


@given(REQUESTS)
def test_nodes_and_homes_parse_requests_alike(request: PoolRequest) -> None:
    prefix = requests_prefix(request.block.family.tenant, request.member)
    assert read_by_node(request.name, prefix) == read_by_home(request.name)


@given(REQUESTS, st.data())
def test_nodes_and_homes_parse_hostile_names_alike(
    request: PoolRequest, data: st.DataObject
) -> None:
    prefix = requests_prefix(request.block.family.tenant, request.member)
    start = data.draw(st.integers(len(prefix), len(request.name)))
    end = data.draw(st.integers(start, min(start + 8, len(request.name))))
    new = data.draw(st.text(alphabet="/-_.%=0129afAFgz~", max_size=6))
    garbled = request.name[:start] + new + request.name[end:]
    read = read_by_node(garbled, prefix)
    assert read is None or read == read_by_home(garbled)


@given(st.text())
def test_text_is_not_a_name(text: str) -> None:
    for read in (PoolRequest.parse, BlockKey.parse):
        with pytest.raises(KVError):
            read(text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("h/1", "h0", "7", Unpin(BLOCK)), "node"),
        (("h1", "", "7", Unpin(BLOCK)), "node"),
        (("h1", "h0", "7", Keep(((BLOCK, 0),), "%00")), "node"),
        (("h1", "h0", "x", Unpin(BLOCK)), "nonce"),
        (("h1", "h0", "7", Pin(BLOCK, -1)), "number"),
        (("h1", "h0", "7", Keep(((BLOCK, 10**9),), "h2")), "number"),
    ],
)
def test_invalid_parts_of_requests_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(KVError, match=message):
        PoolRequest(*arguments)


def test_a_hash_of_another_length_is_refused() -> None:
    with pytest.raises(KVError, match="32 bytes"):
        BlockKey(BLOCK.family, bytes(31))
