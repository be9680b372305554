"""Communication hooks for DistributedDataParallel.

They send fewer bytes (docs/compression.md), or wait for fewer ranks (docs/stragglers.md).

    from innet.torch_backend import hooks

    model = DistributedDataParallel(model)
    model.register_comm_hook(hooks.Q8State(model.parameters()), hooks.q8_hook)

Each hook gives the mean of the gradients, the same bits on every rank. NaN and infinity on any rank
reach all ranks as NaN or infinity, so that loss scaling sees them.
"""

from innet.torch_backend.hooks.k_of_n import KOfNState, k_of_n_hook
from innet.torch_backend.hooks.quantized import Q8State, bf16_hook, fp16_hook, q8_hook
from innet.torch_backend.hooks.sparse import (
    BlockSparseState,
    TopKState,
    block_sparse_hook,
    topk_hook,
)

__all__ = [
    "BlockSparseState",
    "KOfNState",
    "Q8State",
    "TopKState",
    "bf16_hook",
    "block_sparse_hook",
    "fp16_hook",
    "k_of_n_hook",
    "q8_hook",
    "topk_hook",
]
