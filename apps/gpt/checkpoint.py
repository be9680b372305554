"""Saves and loads a training with ``torch.distributed.checkpoint``.

Each rank writes what it has. What is saved is the whole model whoever has which part, so a training
can go on with another layout or another number of ranks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.state_dict import (
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.tensor import DTensor, Replicate, Shard

from gpt.parallel import ParallelModel

_COMPLETE = ".metadata"  # written last


class Checkpoints:
    """The checkpoints of a training, a folder ``step-000100`` for each."""

    def __init__(
        self, folder: Path, parallel: ParallelModel, optimizer: torch.optim.Optimizer
    ) -> None:
        self._folder = folder
        self._parallel = parallel
        self._optimizer = optimizer

    def save(self, step: int) -> None:
        """Write a checkpoint; all ranks call it after ``step`` steps."""
        save(self._state(), checkpoint_id=self._folder / f"step-{step:06}")

    def load_latest(self) -> int:
        """Go on from the last complete checkpoint; all ranks call it.

        Returns:
            Steps that it was trained for; 0 when there is none.
        """
        latest = max(self._folder.glob(f"step-*/{_COMPLETE}"), default=None)
        if latest is None:
            return 0
        state = self._state()
        load(state, checkpoint_id=latest.parent)
        model = self._parallel.model
        set_model_state_dict(model, self._locally(state["model"]))
        set_optimizer_state_dict(model, self._optimizer, self._locally(state["optimizer"]))
        return int(latest.parent.name.removeprefix("step-"))

    def _state(self) -> dict[str, Any]:
        model = self._parallel.model
        return {
            "model": self._globally(get_model_state_dict(model)),
            "optimizer": self._globally(get_optimizer_state_dict(model, self._optimizer)),
        }

    def _globally(self, state: Any, path: tuple[str, ...] = ()) -> Any:
        """With the experts of this rank as parts of all experts."""
        if isinstance(state, dict):
            return {key: self._globally(value, (*path, str(key))) for key, value in state.items()}
        if not self._are_experts(state, path):
            return state
        mesh = self._parallel.mesh
        kinds = mesh.mesh_dim_names or ()
        return DTensor.from_local(
            state, mesh, [Shard(0) if kind == "ep" else Replicate() for kind in kinds]
        )

    def _locally(self, state: Any, path: tuple[str, ...] = ()) -> Any:
        if isinstance(state, dict):
            return {key: self._locally(value, (*path, str(key))) for key, value in state.items()}
        return state.to_local() if self._are_experts(state, path) else state

    def _are_experts(self, state: Any, path: tuple[str, ...]) -> bool:
        if "ep" not in self._parallel.layout.sizes or not isinstance(state, torch.Tensor):
            return False
        return state.dim() == 3 and any(part.endswith(("mlp.up", "mlp.down")) for part in path)
