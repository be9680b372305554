"""What vLLM loads or switches while it runs never makes an engine load blocks of other weights."""

from __future__ import annotations

import asyncio
import functools
import shutil
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

REASON = "vLLM is not installed here: `make kv-adapters` tests with it"
pytest.importorskip("vllm", reason=REASON)

import torch
from vllm.config import VllmConfig
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from vllm.lora.request import LoRARequest
from vllm.lora.worker_manager import WorkerLoRAManager
from vllm.v1.worker.gpu_worker import Worker

from innet.errors import KVError
from innet.kv.adapters.vllm import InnetConnector, connector
from innet.kv.adapters.vllm.cache_identity import CacheIdentity, ConnectorOptions
from innet.kv.adapters.vllm.chunk_names import ChunkName, ChunkNames
from innet.kv.adapters.vllm_names import REPLACING
from innet.kv.labels import EVERYTHING, read_labels
from tests.kv.fake_network import TENANT
from tests.kv_adapters.hosts import Hosts
from tests.kv_adapters.vllm.conftest import MakeEngine
from tests.kv_adapters.vllm.engine import BLOCK, CHUNK, PROMPT, Engine, cache_config

LOADED = len(PROMPT) - 4 * CHUNK
"""Tokens that are computed of a prompt that is in the pool."""
OTHER = [token + 1 for token in PROMPT]


@pytest.fixture(autouse=True)
def loader() -> Iterator[None]:
    """vLLM's functions, without a model behind them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WorkerLoRAManager, "_load_adapter", lambda self, request: request)
        for name in REPLACING:
            patch.setattr(Worker, name, lambda self: None)
        patch.setattr(Worker, "sleep", lambda self, level=1: None)
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "adapter"
    made.mkdir()
    (made / "adapter_config.json").write_text('{"r": 8}')
    train(made, 1)
    return made


def train(folder: Path, weights: int) -> None:
    (folder / "adapter_model.safetensors").write_bytes(bytes([weights] * 1000))


def lora(folder: Path, name: str = "tuned") -> LoRARequest:
    """Of an adapter that this process has loaded, as vLLM loads it."""
    request = LoRARequest(name, 1, str(folder))
    WorkerLoRAManager._load_adapter(object(), request)
    return request


def computed(engine: Engine, prompt: list[int] = PROMPT, **inputs: Any) -> int:
    served = engine.serve(prompt, **inputs)
    assert served.is_right
    engine.saved()
    return served.computed_tokens


def test_a_retrained_adapter_of_the_same_name_and_path_is_computed(
    engine: MakeEngine, folder: Path
) -> None:
    one = engine("a")
    assert computed(one, lora_request=lora(folder)) == len(PROMPT)
    other = engine("b")
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy)
    assert computed(other, lora_request=lora(copy, "by another name")) == LOADED
    assert computed(other) == len(PROMPT), "the model alone has other blocks"
    train(folder, 2)
    assert computed(other, lora_request=lora(folder)) == len(PROMPT)


def test_an_adapter_that_is_reloaded_in_place_is_neither_loaded_nor_saved(
    engine: MakeEngine, folder: Path
) -> None:
    one = engine("a")
    computed(one, lora_request=lora(folder))
    train(folder, 2)
    computed(one, OTHER, lora_request=lora(folder))
    assert computed(engine("b"), OTHER, lora_request=lora(folder)) == len(PROMPT)


def test_an_adapter_whose_files_change_between_load_and_first_prompt_is_left_out(
    engine: MakeEngine, folder: Path
) -> None:
    one = engine("a")
    loaded = lora(folder)
    train(folder, 2)
    computed(one, lora_request=loaded)
    other = engine("b")
    assert computed(other, lora_request=lora(folder)) == len(PROMPT)
    third = engine("a")
    train(folder, 1)
    loaded = lora(folder)
    train(folder, 2)
    assert computed(third, lora_request=loaded) >= len(PROMPT), "the pool has the new one's blocks"
    assert computed(third, OTHER, lora_request=loaded) == len(PROMPT)


def test_files_that_change_while_vllm_loads_them_are_left_out(
    engine: MakeEngine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WorkerLoRAManager, "_load_adapter", lambda *_: train(folder, 2))
    one = engine("a")
    computed(one, lora_request=lora(folder))
    monkeypatch.setattr(WorkerLoRAManager, "_load_adapter", lambda *_: None)
    assert computed(engine("b"), lora_request=lora(folder)) == len(PROMPT)


def test_a_vllm_that_cannot_be_observed_shares_no_adapters(
    engine: MakeEngine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = LoRARequest("tuned", 1, str(folder))
    monkeypatch.delattr(WorkerLoRAManager, "_load_adapter")
    computed(engine("a"), lora_request=loaded)
    other = engine("b")
    assert computed(other, lora_request=loaded) == len(PROMPT)
    assert computed(other) == len(PROMPT)
    assert computed(engine("a")) == LOADED, "the model itself is shared"


class Model(torch.nn.Module):
    """Of a worker."""

    def load_weights(self, weights: list[tuple[str, torch.Tensor]]) -> None:
        """As a trainer calls it."""


@pytest.mark.parametrize(
    "replace",
    [
        *(
            functools.partial(lambda name: getattr(Worker, name)(object()), each)
            for each in REPLACING
        ),
        lambda: Worker.sleep(object(), 2),
        lambda: Worker.sleep(object(), level=2),
        lambda: Model().load_weights([]),
    ],
)
def test_weights_that_are_replaced_while_serving_end_the_sharing(
    engine: MakeEngine, replace: Callable[[], None]
) -> None:
    one = engine("a")
    computed(one)
    replace()
    computed(one, OTHER)
    other = engine("b")
    assert computed(other, OTHER) == len(PROMPT), "nothing was saved"
    assert computed(one, PROMPT[:CHUNK] + OTHER) == len(PROMPT), "its own cache alone is used"


def test_an_engine_that_keeps_its_weights_while_it_sleeps_goes_on_sharing(
    engine: MakeEngine,
) -> None:
    one = engine("a")
    Worker.sleep(object())
    computed(one)
    assert computed(engine("b")) == LOADED


def test_an_engine_whose_loaders_have_other_names_says_that_it_cannot_be_observed(
    engine: MakeEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in REPLACING:
        monkeypatch.delattr(Worker, name)
    engine("a")
    assert "does not notice when it replaces the model's weights" in caplog.text


SEEDS = pytest.mark.parametrize(
    ("seed", "algorithm"), [("0", "sha256_cbor"), ("77", "sha256_cbor"), (None, "sha256")]
)


@SEEDS
def test_hash_seeds_and_algorithms_do_not_split_a_pool(
    config: VllmConfig,
    engine: MakeEngine,
    seed: str | None,
    algorithm: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    computed(engine("a"))
    if seed is not None:
        monkeypatch.setenv("PYTHONHASHSEED", seed)
    other = deepcopy(config)
    other.cache_config.prefix_caching_hash_algo = algorithm
    assert computed(engine("b", other)) == LOADED


def with_images(*images: tuple[str, int]) -> Any:
    """A request with images, each of 6 tokens from a place on."""
    features = [
        SimpleNamespace(identifier=name, mm_position=SimpleNamespace(offset=place, length=6))
        for name, place in images
    ]
    return SimpleNamespace(
        request_id="0", lora_request=None, cache_salt=None, mm_features=features,
        prompt_embeds=None, all_token_ids=[7] * 4 * CHUNK, block_hashes=[b"of vLLM"] * 8,
    )  # fmt: skip


def test_images_count_in_the_chunks_that_they_are_in_and_behind() -> None:
    def names(*images: tuple[str, int]) -> list[bytes]:
        made = ChunkNames(CHUNK, BLOCK, lambda request: None)
        return [name.chunk_hash for name in made.of(with_images(*images), 4 * CHUNK)]

    def common(one: list[bytes], other: list[bytes]) -> int:
        return sum(a == b for a, b in zip(one, other, strict=True))

    start = CHUNK + 4  # in the second and the third of four chunks
    cat = names(("cat", start))
    assert common(cat, names(("cat", start))) == 4
    assert common(cat, names(("dog", start))) == 1
    assert common(cat, names(("cat", start + 1))) == 1
    assert common(cat, names(("cat", start), ("dog", 3 * CHUNK))) == 3
    assert common(cat, names()) == 1


def test_a_prompt_whose_end_is_replaced_gets_new_names() -> None:
    """As vLLM replaces the last token of a session that goes on."""
    names, request = ChunkNames(CHUNK, BLOCK, lambda request: None), with_images()
    before = names.of(request, 4 * CHUNK)
    request.all_token_ids[-1] = 8
    request.block_hashes[-1] = b"another"
    after = names.of(request, 4 * CHUNK)
    assert (before[:3], before[3] == after[3]) == (after[:3], False)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"cache_salt": "a"}, {"cache_salt": "b"}),
        ({"cache_salt": "a"}, {}),
        ({"prompt_embeds": torch.zeros(len(PROMPT), 4)}, {}),
        (
            {"prompt_embeds": torch.zeros(len(PROMPT), 4)},
            {"prompt_embeds": torch.ones(len(PROMPT), 4)},
        ),
        (
            {"prompt_embeds": torch.zeros(len(PROMPT), 4)},
            {"prompt_embeds": torch.zeros(len(PROMPT), 4, dtype=torch.int32)},
        ),
    ],
)
def test_other_inputs_than_tokens_count(
    engine: MakeEngine, one: dict[str, Any], other: dict[str, Any]
) -> None:
    computed(engine("a"), **one)
    second = engine("b")
    assert computed(second, **other) == len(PROMPT)
    assert computed(engine("b"), **one) == LOADED


def _trained(config: VllmConfig) -> None:
    config.weight_transfer_config = SimpleNamespace(backend="nccl")


def _scales(config: VllmConfig) -> None:
    config.cache_config.calculate_kv_scales = True


@pytest.mark.parametrize(
    ("change", "said"),
    [(_trained, "--weight-transfer-config"), (_scales, "--calculate-kv-scales")],
)
def test_what_makes_blocks_an_engines_own_is_refused(
    hosts: Hosts, config: VllmConfig, change: Callable[[VllmConfig], None], said: str
) -> None:
    changed = deepcopy(config)
    object.__setattr__(changed, "cache_config", SimpleNamespace(**vars(config.cache_config)))
    change(changed)
    with hosts.at("a", connector), pytest.raises(KVError, match=said):
        InnetConnector(changed, KVConnectorRole.WORKER, cache_config())


def _change(section: str, name: str, value: Any) -> Callable[[VllmConfig], None]:
    def change(config: VllmConfig) -> None:
        object.__setattr__(getattr(config, section), name, value)

    return change


@pytest.mark.parametrize(
    "change",
    [
        _change("load_config", "load_format", "dummy"),
        _change("load_config", "model_loader_extra_config", {"tensorizer_uri": "s3://other"}),
        _change("model_config", "model_weights", "s3://other/weights"),
        _change("model_config", "quantization_config", {"linear": "fp8"}),
        _change("model_config", "model_impl", "transformers"),
        _change("model_config", "hf_overrides", {"rope_theta": 1.0}),
        _change("cache_config", "cache_dtype", "fp8"),
        _change("cache_config", "kv_cache_dtype_skip_layers", ["0"]),
        _change("cache_config", "use_replayssm", True),
        _change("attention_config", "use_non_causal", True),
        _change(
            "model_config",
            "multimodal_config",
            SimpleNamespace(mm_processor_kwargs={"max_pixels": 9}),
        ),
    ],
)
def test_settings_that_change_keys_and_values_count(
    config: VllmConfig, hosts: Hosts, change: Callable[[VllmConfig], None]
) -> None:
    changed = deepcopy(config)
    change(changed)
    options = ConnectorOptions(chunk_tokens=CHUNK)
    names = {
        CacheIdentity(each, cache_config(), options, "ab" * 16).key(0, ChunkName(b"x")).name
        for each in (config, changed)
    }
    assert len(names) == 2


@pytest.mark.parametrize(
    ("rotary", "is_shared"), [("longrope", False), ("dynamic", False), ("yarn", True)]
)
def test_longest_prompts_count_where_rotary_encodings_depend_on_them(
    config: VllmConfig, rotary: str, is_shared: bool
) -> None:
    """vLLM computes all prompts of Phi 3 with other factors when it accepts longer ones."""
    options, names = ConnectorOptions(chunk_tokens=CHUNK), set()
    for longest in (128, 256):
        changed = deepcopy(config)
        changed.model_config.hf_config.rope_parameters = {"rope_type": rotary, "factor": 2.0}
        changed.model_config.max_model_len = longest
        identity = CacheIdentity(changed, cache_config(), options, "ab" * 16)
        names.add(identity.key(0, ChunkName(b"x")).name)
    assert (len(names) == 1) == is_shared


def test_engines_that_will_share_nothing_say_which_setting_differs(
    config: VllmConfig, hosts: Hosts, engine: MakeEngine, folder: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    one = engine("a")
    computed(one, lora_request=lora(folder))
    engine("b")
    _settle(hosts)
    assert "will never find" not in caplog.text
    other = deepcopy(config)
    other.kv_transfer_config.kv_connector_extra_config["chunk_tokens"] = 2 * CHUNK
    engine("b", other)
    _settle(hosts)
    assert f"chunk_tokens is {2 * CHUNK} here and {CHUNK} there" in caplog.text

    async def read() -> list[str]:
        blocks = hosts.hosts["home"].blocks
        found = await blocks.administration.inventory(EVERYTHING)
        labels = await read_labels(blocks, TENANT, found.families())
        return sorted(label.adapter for each in labels.values() for label in each)

    assert hosts.hosts["home"].submit(read()).result() == ["", "", "tuned"]


def _settle(hosts: Hosts) -> None:
    """Let the hosts finish what engines have begun when they joined."""

    async def all_others() -> None:
        own = asyncio.current_task()
        pending = [each for each in asyncio.all_tasks() if each is not own and _is_label(each)]
        await asyncio.gather(*pending)

    hosts.hosts["home"].submit(all_others()).result()


def _is_label(task: asyncio.Task[Any]) -> bool:
    name = getattr(task.get_coro(), "__name__", "")
    return name in ("announce", "put_label")
