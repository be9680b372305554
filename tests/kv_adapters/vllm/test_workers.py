"""Blocks are named by what the workers compute with: their model, device and kernels."""

from __future__ import annotations

from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import pytest

REASON = "vLLM is not installed here: `make kv-adapters` tests with it"
pytest.importorskip("vllm", reason=REASON)

from vllm.config import VllmConfig
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole

from innet.errors import KVError
from innet.kv.adapters.vllm import InnetConnector, connector
from innet.kv.adapters.vllm.cache_identity import WorkerFacts
from tests.kv_adapters.hosts import Hosts
from tests.kv_adapters.vllm.conftest import MakeEngine
from tests.kv_adapters.vllm.engine import CHUNK, LAYERS, PROMPT, Engine, cache_config

LOADED = len(PROMPT) - 4 * CHUNK
"""Tokens that are computed of a prompt that is in the pool."""


def computed(engine: Engine) -> int:
    served = engine.serve(PROMPT)
    assert served.is_right
    engine.saved()
    return served.computed_tokens


def with_kernels(config: VllmConfig, backend: str, isa: str = "") -> VllmConfig:
    """vLLM's configuration in a worker whose layers have these kernels."""
    layer: dict[str, Any] = {
        "get_attn_backend": lambda: SimpleNamespace(get_name=lambda: backend),
        **({"isa": isa} if isa else {}),
    }
    changed = deepcopy(config)
    context = changed.compilation_config.static_forward_context
    context.update(dict.fromkeys(LAYERS, SimpleNamespace(**layer)))
    return changed


@pytest.mark.parametrize(
    ("one", "other"),
    [(("CPU_ATTN", "amx"), ("CPU_ATTN", "vec")), (("FLASH_ATTN",), ("FLASHINFER",))],
)
def test_kernels_that_order_keys_in_other_ways_share_no_blocks(
    config: VllmConfig, engine: MakeEngine, one: tuple[str, ...], other: tuple[str, ...]
) -> None:
    computed(engine("a", with_kernels(config, *one)))
    assert computed(engine("b", with_kernels(config, *other))) == len(PROMPT)
    assert computed(engine("b", with_kernels(config, *one))) == LOADED


def test_a_scheduler_finds_the_blocks_of_a_model_that_changes_its_configuration(
    config: VllmConfig, engine: MakeEngine
) -> None:
    """Models do so in the worker's process, while it builds them."""
    built = deepcopy(config)
    built.model_config.hf_config.attn_temperature_tuning = True
    assert computed(engine("a", built=built)) == len(PROMPT)
    assert computed(engine("b", built=built)) == LOADED
    assert computed(engine("b")) == len(PROMPT)


def test_ranks_that_compute_in_other_ways_are_refused(config: VllmConfig, hosts: Hosts) -> None:
    with hosts.at("a", connector):
        scheduler = InnetConnector(config, KVConnectorRole.SCHEDULER, cache_config())
    facts = [WorkerFacts({"caches": each}) for each in ("CPU_ATTN amx", "CPU_ATTN vec")]
    with pytest.raises(KVError, match="CPU_ATTN amx and CPU_ATTN vec"):
        scheduler.set_xfer_handshake_metadata(dict(enumerate(facts)))
