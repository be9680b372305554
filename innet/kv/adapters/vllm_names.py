"""Functions of vLLM that load weights, for adapters that observe them."""

from __future__ import annotations

from typing import Final

WORKER: Final = ("vllm.v1.worker.gpu_worker", "Worker")
"""Base of all workers that can replace a model's weights."""
REPLACING: Final = (
    "reload_weights",
    "start_weight_update",
    "start_draft_weight_update",
    "update_weights",
    "reset_weights",
)
LOADER: Final = ("vllm.lora.worker_manager", "WorkerLoRAManager", "_load_adapter")
"""Loads an adapter, given the manager and the request."""
