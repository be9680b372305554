"""Settings of SGLang that keys and values depend on, and what replaces its weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from innet.errors import KVError
from innet.kv.adapters.identity import (
    FileDigests,
    default_cache_folder,
    fingerprint,
    model_facts,
)

UPDATER: Final = (
    "sglang.srt.model_executor.model_runner_components.weight_updater",
    "WeightUpdater",
)
REPLACING: Final = (
    "update_weights_from_disk",
    "load_weights_from_distributed",
    "update_weights_from_tensor",
    "update_weights_from_ipc",
)

_FACTS: Final = (
    "load_format",  # "dummy" does not load the files
    "model_loader_extra_config",
    "custom_weight_loader",
    "revision",
    "model_impl",
    "json_model_override_args",  # of the rotary encoding as well
    "dtype",
    "quantization",
    "modelopt_quant",
    "rl_quant_profile",
    "quantize_and_serve",
    "weight_version",
    "forward_hooks",
    "kt_method",
    "kt_num_gpu_experts",
    "remote_instance_weight_loader_seed_instance_ip",
    "remote_instance_weight_loader_seed_instance_service_port",
    "cp_strategy",  # which tokens and layers a rank has
    "enable_kv_cache_sharding",
    "enable_dsa_cache_layer_split",
    "kv_cache_dtype",
    "prefill_kv_cache_dequant_dtype",
    "qsa_indexer_dtype",
    "enable_deepseek_v4_fp4_indexer",
    "mamba_ssm_dtype",
    "enable_int8_mamba_checkpoint",
    "enable_mamba_cache_stochastic_rounding",
    "enable_linear_replayssm",
    "linear_replayssm_cache_len",
    "enable_precise_embedding_interpolation",
    "enable_encoder_swa_bounded_replay",
    "enable_decoder_swa_bounded_replay",
    "enable_hisparse",
    "language_model_only",
    "mm_process_config",
    "limit_mm_data_per_request",
    "lora_target_modules",
    "experts_shared_outer_loras",
    "speculative_algorithm",  # a draft's layers have pages of their own
    "speculative_draft_model_revision",
    "speculative_draft_load_format",
    "speculative_draft_model_quantization",
    "speculative_draft_kv_cache_dtype",
    "speculative_draft_window_size",
    "speculative_draft_sink_size",
    "enable_multi_layer_eagle",
)
_FILES: Final = (
    "quantization_param_path",  # scales of a quantised cache
    "uno_lora_path",  # a draft's adapter
    "kt_weight_path",  # experts on the processor
    "modelopt_checkpoint_restore_path",
    "decrypted_config_file",
    "decrypted_draft_config_file",
)
"""Files and folders whose contents count."""


def settings_facts(arguments: Any, weights: str) -> dict[str, Any]:
    """The settings of a server, for :func:`innet.kv.adapters.identity.engine_digest`.

    SGLang names pages of an adapter of ``--lora-paths`` by its name and path, so the contents of
    all of them count. One that is loaded later has a random name, and shares no pages.

    Args:
        arguments: SGLang's of the server.
        weights: identity of the model's weights that the user vouches for, which covers a draft
            model's as well.

    Raises:
        KVError: a setting's files cannot be identified.
    """
    facts: dict[str, Any] = {
        name: _text(getattr(arguments, name)) for name in _FACTS if hasattr(arguments, name)
    }
    digests = FileDigests(default_cache_folder())
    for name in _FILES:
        if path := getattr(arguments, name, None):
            facts[name] = _identity(path, digests, name)
    if draft := getattr(arguments, "speculative_draft_model_path", None):
        facts["draft"] = model_facts(draft, weights)
    facts["adapters"] = sorted(
        [name, _identity(path, digests, "lora_paths")]
        for name, path in _adapters(getattr(arguments, "lora_paths", None))
    )
    return facts


def _text(value: Any) -> str:
    """The same for equal sets, whose order depends on ``PYTHONHASHSEED``."""
    return str(sorted(value) if isinstance(value, set | frozenset) else value)


def _adapters(given: Any) -> Iterator[tuple[str, str]]:
    """Names and paths of adapters, in each form that ``--lora-paths`` has."""
    if isinstance(given, Mapping):
        yield from given.items()
        return
    for each in given or ():
        if isinstance(each, str):
            name, equals, path = each.partition("=")
            yield name, path if equals else name
        elif isinstance(each, Mapping):
            yield each["lora_name"], each["lora_path"]
        else:
            yield each.lora_name, each.lora_path


def _identity(path: str, digests: FileDigests, setting: str) -> str:
    """A hash of a file, a folder, or what a hub has of that name.

    Raises:
        KVError: its contents are not on this machine.
    """
    place = Path(path).expanduser()
    if place.is_file():
        _, digest = digests.of(place)
        return digest
    if not place.exists():
        place = _downloaded(path, setting)
    return fingerprint(place, digests)


def _downloaded(name: str, setting: str) -> Path:
    """Where the server has put what it has downloaded."""
    try:
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(name, local_files_only=True))
    except Exception as error:  # of the library and of its dependencies
        raise KVError(
            f"{setting}: {name} is no local file or folder, so its contents cannot be identified "
            f"({error}): download it, and give the server its path"
        ) from error
