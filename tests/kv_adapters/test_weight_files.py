"""Models in local folders: blocks of other weights never stand in for each other."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from innet.errors import KVError
from innet.kv.adapters.identity import FileDigests, fingerprint, model_facts
from tests.kv_adapters.stand_ins import adapter_module

TENANT = "aa" * 16
CHUNK = SimpleNamespace(chunk_hash=bytes(32), adapter=None)
_LATER_NS = 3_600_000_000_000

BlockName = Callable[[str, str], str]
"""The name of one block of an engine, of the model's path and the option ``weights``."""


def vllm_name(model: str, weights: str) -> str:
    with adapter_module("vllm", "cache_identity") as identity:
        config = SimpleNamespace(
            to_json_string=lambda: json.dumps({"layers": 1, "_name_or_path": model})
        )
        engine = SimpleNamespace(
            parallel_config=SimpleNamespace(
                world_size=1, tensor_parallel_size=1, decode_context_parallel_size=1, rank=0
            ),
            cache_config=SimpleNamespace(
                prefix_caching_hash_algo="sha256_cbor", cache_dtype="auto"
            ),
            model_config=SimpleNamespace(
                model=model,
                revision=None,
                hf_config=config,
                hf_overrides={},
                dtype="bfloat16",
                quantization=None,
            ),
            speculative_config=None,
        )
        group = SimpleNamespace(kv_cache_spec=_attention_spec(), layer_names=["layers.0"])
        cache = SimpleNamespace(kv_cache_groups=[group], hash_block_size=None)
        options = SimpleNamespace(chunk_tokens=16, layers_per_object=1, weights=weights, codec=None)
        name: str = identity.CacheIdentity(engine, cache, options, TENANT).key(0, CHUNK).name
        return name


def _attention_spec() -> Any:
    """A cache of full attention; without vLLM its class is a stand-in that knows no fields."""
    with adapter_module("vllm", "cache_groups") as groups:
        fields = {"block_size": 16, "dtype": "torch.bfloat16", "__repr__": lambda _: "spec"}
        return object.__new__(type("_Spec", (groups.FullAttentionSpec,), fields))


def lmcache_object_name(model: str, weights: str) -> str:
    key = SimpleNamespace(
        model_name=model, kv_rank=0, object_group_id=0, cache_salt="", chunk_hash=bytes(32)
    )
    with adapter_module("lmcache", "objects") as keys:
        [name] = asyncio.run(keys.ObjectNames(TENANT, weights).of_objects([key]))
        return str(name.name)


def lmcache_chunk_name(model: str, weights: str) -> str:
    key = SimpleNamespace(model_name=model, to_string=lambda: "chunk")
    with adapter_module("lmcache", "objects") as keys:
        [name] = asyncio.run(keys.ObjectNames(TENANT, weights).of_chunks([key]))
        return str(name.name)


def sglang_name(model: str, weights: str) -> str:
    member = SimpleNamespace(blocks=None, tenant=TENANT, submit=lambda work: work.close())
    host = SimpleNamespace(
        dtype="bf16", layout="l", start_layer=0, end_layer=1, page_size=4, size_per_token=8,
        get_data_page=lambda _: SimpleNamespace(numel=lambda: 32),
    )  # fmt: skip
    config: Any = SimpleNamespace(
        model_name=model,
        extra_config={"innet": {"weights": weights}},
        is_mla_model=False,
        **dict.fromkeys(("tp_rank", "pp_rank", "attn_cp_rank", "dcp_rank"), 0),
        **dict.fromkeys(("tp_size", "pp_size", "attn_cp_size", "dcp_size"), 1),
        **dict.fromkeys(("should_split_heads", "tp_lcm_size"), 0),
    )
    with adapter_module("sglang") as storage, pytest.MonkeyPatch.context() as patch:
        entered = SimpleNamespace(enter=lambda options, members: member)
        patch.setattr(storage, "pool_of_process", entered)
        patch.setattr(storage.utils, "storage_namespace_seed", None, raising=False)
        patch.setattr(
            storage.HiCacheStorage, "register_mem_pool_host", lambda *_: None, raising=False
        )
        made = storage.InnetHiCacheStorage(config)
        made.register_mem_pool_host(host)
        return str(made._key("page").name)


ENGINES = pytest.mark.parametrize(
    "block_name", [vllm_name, lmcache_object_name, lmcache_chunk_name, sglang_name]
)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "digests"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder as people download it: two files of weights, and what goes with them."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "llama"}')
    (folder / "model-00001-of-00002.safetensors").write_bytes(bytes(1000))
    (folder / "model-00002-of-00002.safetensors").write_bytes(bytes(2000))
    return folder


def other_weights(model: Path, name: str = "other") -> Path:
    """The same configuration, names and sizes, and one other byte."""
    other = model.with_name(name)
    shutil.copytree(model, other)
    (other / "model-00002-of-00002.safetensors").write_bytes(bytes(1999) + b"1")
    return other


@ENGINES
def test_folders_with_equal_configurations_and_other_weights_have_other_blocks(
    block_name: BlockName, model: Path
) -> None:
    assert block_name(str(model), "") != block_name(str(other_weights(model)), "")


@ENGINES
def test_one_path_with_other_weights_than_before_has_other_blocks(
    block_name: BlockName, model: Path
) -> None:
    before = block_name(str(model), "")
    shutil.copytree(other_weights(model), model, dirs_exist_ok=True)
    assert block_name(str(model), "") != before


@ENGINES
def test_folders_with_the_same_weights_share_blocks(
    block_name: BlockName, model: Path, tmp_path: Path
) -> None:
    downloaded = tmp_path / "hub" / "snapshot"
    shutil.copytree(model, tmp_path / "blobs")
    downloaded.mkdir(parents=True)
    for file in (tmp_path / "blobs").iterdir():  # as a hub's cache keeps them
        (downloaded / file.name).symlink_to(file)
    (downloaded / "README.md").write_text("a model")
    (downloaded / "tokenizer.json").write_text("{}")
    (downloaded / ".cache").mkdir()
    (downloaded / ".cache" / "when").write_text("today")
    assert block_name(str(model), "") == block_name(str(downloaded), "")


@ENGINES
def test_a_name_at_a_hub_and_weights_that_the_user_names_are_taken_at_their_word(
    block_name: BlockName, model: Path
) -> None:
    assert block_name("meta/llama", "") == block_name("meta/llama", "")
    assert block_name("meta/llama", "") != block_name("meta/llama", "tuned")
    assert block_name(str(model), "v1") != block_name(str(model), "v2")
    before = block_name(str(model), "v1")
    shutil.copytree(other_weights(model), model, dirs_exist_ok=True)
    assert block_name(str(model), "v1") == before


@ENGINES
def test_a_path_that_tells_no_weights_is_refused(
    block_name: BlockName, model: Path, tmp_path: Path
) -> None:
    with pytest.raises(KVError, match="give its absolute path, or the option weights"):
        block_name(str(tmp_path / "missing"), "")
    for file in model.glob("*.safetensors"):
        file.unlink()
    with pytest.raises(KVError, match=r"holds no weights.*option weights"):
        block_name(str(model), "")
    block_name(str(model), "v1")


def test_a_model_in_one_file_is_known_by_its_contents(tmp_path: Path) -> None:
    one, other = tmp_path / "a" / "model.gguf", tmp_path / "b" / "model.gguf"
    for file, contents in ((one, b"one"), (other, b"two")):
        file.parent.mkdir()
        file.write_bytes(contents)
    assert model_facts(str(one), "") != model_facts(str(other), "")


def test_weights_in_folders_below_count_and_links_in_circles_end(model: Path) -> None:
    (model / "part").mkdir()
    (model / "part" / "more.bin").write_bytes(b"one")
    (model / "part" / "up").symlink_to(model)
    before = model_facts(str(model), "")
    (model / "part" / "more.bin").write_bytes(b"two")
    assert model_facts(str(model), "") != before


class _Hashed:
    """Counts the files that are hashed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files: list[str] = []
        digest_of = hashlib.file_digest

        def file_digest(file: Any, algorithm: str) -> Any:
            self.files.append(Path(file.name).name)
            return digest_of(file, algorithm)

        monkeypatch.setattr(hashlib, "file_digest", file_digest)


def test_a_restart_hashes_only_files_that_changed(
    model: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed = _Hashed(monkeypatch)
    later = os.stat(model).st_ctime_ns + _LATER_NS

    def started() -> str:
        return fingerprint(model, FileDigests(cache, lambda: later))

    first = started()
    assert len(hashed.files) == 3
    assert started() == first
    assert len(hashed.files) == 3
    weights = model / "model-00002-of-00002.safetensors"
    kept = os.stat(weights)
    weights.write_bytes(bytes(1999) + b"1")
    os.utime(weights, ns=(kept.st_atime_ns, kept.st_mtime_ns))  # as some copying programs do
    assert started() != first
    assert hashed.files[3:] == [weights.name]


def test_digests_of_files_that_have_just_changed_are_not_kept(
    model: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed = _Hashed(monkeypatch)
    now = os.stat(model).st_ctime_ns
    for _ in range(2):
        fingerprint(model, FileDigests(cache, lambda: now))
    assert len(hashed.files) == 6


@pytest.mark.parametrize("contents", ["", "[]", '{"sha256": 1, "stamp": null}', "{"])
def test_a_damaged_cache_and_a_missing_one_cost_time_alone(
    model: Path, cache: Path, contents: str
) -> None:
    digests = FileDigests(cache, lambda: os.stat(model).st_ctime_ns + _LATER_NS)
    first = fingerprint(model, digests)
    entries = list(cache.iterdir())
    assert len(entries) == 3
    for entry in entries:
        entry.write_text(contents)
    assert fingerprint(model, digests) == first
    assert fingerprint(model, FileDigests(None)) == first
    blocked = cache.with_name("file")
    blocked.write_text("")
    assert fingerprint(model, FileDigests(blocked / "weights")) == first
