"""Blocks of vLLM's paged cache, copied to and from the host: of the CPU, and of a CUDA device."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'innet[torch]'")

from tests.kv_adapters.stand_ins import adapter_module

BLOCKS = 12
CHUNK_BLOCKS = 4
LAYERS = ("layers.0", "layers.1", "layers.2")
GROUP = SimpleNamespace(object_blocks=CHUNK_BLOCKS, has_states=False)
SPAN = SimpleNamespace(layers=LAYERS, group=GROUP)


@pytest.fixture(params=["cpu", "cuda"])
def device(request: pytest.FixtureRequest) -> str:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device: there is none here")
    return str(request.param)


@pytest.fixture
def worker_side() -> Iterator[Any]:
    with adapter_module("vllm", "worker_side") as module:
        yield module


def _caches(device: str, seed: int) -> dict[str, Any]:
    """Keys and values of each layer, ``(blocks, 2, tokens, heads, head_dim)``, not contiguous."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(len(LAYERS), 2, BLOCKS, 16, 4, 8, generator=generator)
    whole = drawn.to(device, torch.bfloat16)
    return {name: layer.transpose(0, 1) for name, layer in zip(LAYERS, whole, strict=True)}


def _part(*block_ids: int, first_block: int = 0) -> Any:
    return SimpleNamespace(first_block=first_block, block_ids=block_ids)


def test_what_is_read_is_written_elsewhere(worker_side: Any, device: str) -> None:
    mine, others = _caches(device, 1), _caches(device, 2)
    untouched = {name: cache.clone() for name, cache in others.items()}
    contents = worker_side.PagedCache(mine, BLOCKS).read(SPAN, _part(7, 2, 9, 0))
    for cache in mine.values():
        cache.zero_()  # the engine goes on
    contents.flags.writeable = False  # as those of a pool
    paged = worker_side.PagedCache(others, BLOCKS)
    assert paged.write(SPAN, _part(3, 4, first_block=2), contents)
    original = _caches(device, 1)
    for name, cache in others.items():
        assert torch.equal(cache[[3, 4]], original[name][[9, 0]])
        rest = [block for block in range(BLOCKS) if block not in (3, 4)]
        assert torch.equal(cache[rest], untouched[name][rest])


def test_bytes_of_another_size_are_not_written(worker_side: Any, device: str) -> None:
    caches = _caches(device, 1)
    paged = worker_side.PagedCache(caches, BLOCKS)
    contents = paged.read(SPAN, _part(0, 1, 2))
    assert not paged.write(SPAN, _part(0, 1, 2, 3), contents)
    for name, cache in _caches(device, 1).items():
        assert torch.equal(caches[name], cache)
