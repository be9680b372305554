"""What LMCache's keys leave out: settings, adapters, replaced weights; and which hashes it uses.

LMCache names a chunk by its tokens and the model's name. So an engine with LoRA adapters loads the
blocks of the base model for an adapter's prompts, and the reverse. Its plugin inside an engine adds
the engine's settings to names; it sees when the engine loads an adapter, and shares nothing from
then on. A server beside engines sees nothing of them, so its user says what they have.
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Mapping
from typing import Any, Final, Literal

from innet.errors import KVError
from innet.kv.adapters.engine_pool import AdapterOptions
from innet.kv.adapters.identity import engine_digest, key_hash
from innet.kv.adapters.observation import WeightReplacements
from innet.kv.adapters.vllm_names import LOADER, REPLACING, WORKER

_HASHES: Final = ("sha256", "sha256_cbor", "sha256_cbor_64bit", "blake3")
"""Hashes of LMCache that differ for different prompts, and are the same in each process."""

_LABELLED: Final = ("revision", "quantization", "cache_dtype", "load_format", "max_model_len")
"""Settings that a label has by their own names."""

_log = logging.getLogger(__name__)


class LMCacheOptions(AdapterOptions):
    """Options of both plugins.

    Attributes:
        adapters: ``none``: no engine has LoRA adapters; ``ignored``: engines have some, and their
            prompts may load blocks of the base model or of another adapter.
    """

    adapters: Literal["none", "ignored"] | None = None


def require_known_adapters(options: LMCacheOptions) -> None:
    """Let the user of a server say whether its engines have adapters.

    Raises:
        KVError: nothing is said.
    """
    if options.adapters is None:
        raise KVError(
            "LMCache's keys leave LoRA adapters out, and this server does not see whether an "
            "engine loads any: their prompts would load the base model's blocks. Give the option "
            '"adapters": "none" if no engine here has --enable-lora. Otherwise let these engines '
            "use innet's own connector for vLLM, which knows adapters"
        )
    if options.adapters == "ignored":
        _warn_of_ignored()


def require_safe_hash(algorithm: str) -> None:
    """
    Raises:
        KVError: different prompts can have equal hashes, or one prompt different ones.
    """
    if algorithm not in _HASHES:
        raise KVError(
            f"LMCache's hash {algorithm} collides easily and differs with PYTHONHASHSEED, so "
            "engines would share nothing or load wrong blocks: give all engines "
            "pre_caching_hash_algorithm: sha256_cbor"
        )


@functools.cache
def _engine_config() -> Any:
    """vLLM's configuration, which is current while vLLM starts and LMCache connects first; ``None``
    outside of vLLM."""
    module = sys.modules.get("vllm.config")
    return None if module is None else module.get_current_vllm_config_or_none()


def engine_facts(weights: str) -> dict[str, Any]:
    """Settings of the engine around LMCache that keys and values depend on; none without vLLM.

    Args:
        weights: identity of the model's weights that the user vouches for.

    Raises:
        KVError: the model cannot be identified.
    """
    if (config := _engine_config()) is None:
        return {}
    from innet.kv.adapters.vllm.cache_identity import settings_facts

    return settings_facts(config, weights)


def label_settings(
    metadata: Any, config: Any, options: LMCacheOptions, facts: Mapping[str, Any]
) -> dict[str, str]:
    """The settings that decide with which others an engine's LMCache shares blocks."""
    # The root of all hashes: of PYTHONHASHSEED, or random.
    root = str(getattr(sys.modules.get("lmcache.v1.token_database"), "NONE_HASH", ""))
    return {
        "chunk_size": str(config.chunk_size),
        "pre_caching_hash_algorithm": str(config.pre_caching_hash_algorithm),
        "PYTHONHASHSEED (root of the hashes)": key_hash(root).hex()[:16],
        "--dtype": str(metadata.kv_dtype),
        "--tensor-parallel-size": str(metadata.world_size),
        "codec": options.codec or "",
        **{name: str(facts.get(name, "")) for name in _LABELLED},
        "other settings of the engine": engine_digest("vllm", facts)[:16],
    }


class UnnamedWeights:
    """Weights of this process's engine that LMCache's keys do not name.

    Args:
        options: of the plugin.
    """

    def __init__(self, options: LMCacheOptions) -> None:
        self._replacements = WeightReplacements()
        self._adapters = WeightReplacements("loads an adapter, which LMCache's keys leave out")
        if options.adapters == "ignored":
            _warn_of_ignored()
        if WORKER[0] not in sys.modules:  # LMCache's own tools have no engine
            return
        self._replacements.observe(*WORKER, REPLACING)
        self._replacements.observe_models()
        if options.adapters != "ignored":
            self._adapters.observe(*LOADER[:2], LOADER[2:])

    @property
    def are_loaded(self) -> bool:
        """Whether the engine has loaded some, so that its blocks may not be shared."""
        return bool(self._replacements.method or self._adapters.method)


def _warn_of_ignored() -> None:
    _log.warning(
        "LMCache's keys leave LoRA adapters out: prompts of an adapter load blocks of the base "
        "model or of another adapter, and are answered wrongly. Use innet's own connector for vLLM"
    )
