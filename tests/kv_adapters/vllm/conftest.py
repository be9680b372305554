"""vLLM's configuration and engines, for all tests here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import pytest

from tests.kv_adapters.hosts import Hosts

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.v1.kv_cache_interface import KVCacheConfig

    from tests.kv_adapters.vllm.engine import Engine


class MakeEngine(Protocol):
    """Makes an engine at a host, which is closed at the end of the test.

    Args:
        host: its name.
        own: vLLM's configuration; by default that of the module.
        cache: vLLM's, of the cache; by default that of full attention in all layers.
        built: vLLM's configuration in the worker, which has built the model; by default the same.
    """

    def __call__(
        self,
        host: str,
        own: VllmConfig | None = None,
        cache: KVCacheConfig | None = None,
        built: VllmConfig | None = None,
    ) -> Engine: ...


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> VllmConfig:
    """Made once: vLLM imports the model's class in a process of its own for it."""
    from tests.kv_adapters.vllm.engine import make_config, write_model

    folder = tmp_path_factory.mktemp("model")
    write_model(folder)
    return make_config(folder)


@pytest.fixture
def engine(config: VllmConfig, hosts: Hosts) -> Iterator[MakeEngine]:
    from innet.kv.adapters.vllm import connector
    from tests.kv_adapters.vllm.engine import Engine

    made = []

    def make(
        host: str,
        own: VllmConfig | None = None,
        cache: KVCacheConfig | None = None,
        built: VllmConfig | None = None,
    ) -> Engine:
        with hosts.at(host, connector):
            made.append(Engine(own or config, cache, built))
        return made[-1]

    yield make
    for each in made:
        with hosts.at("a", connector):
            each.close()
