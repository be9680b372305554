"""SGLang's side of a storage: its configuration, and a host cache of tensors on the processor."""

from __future__ import annotations

import torch
from sglang.srt.mem_cache.hicache_storage import HiCacheStorageConfig

PAGE = 4
PAGES = 8
CONFIG = HiCacheStorageConfig(
    tp_rank=0,
    tp_size=1,
    pp_rank=0,
    pp_size=1,
    attn_cp_rank=0,
    attn_cp_size=1,
    is_mla_model=False,
    enable_storage_metrics=False,
    is_page_first_layout=False,
    model_name="model",
    extra_config={
        "backend_name": "innet",
        "module_path": "innet.kv.adapters.sglang",
        "class_name": "InnetHiCacheStorage",
        "innet": {"tenant": "acme"},
    },
)


class HostCache:
    """What a storage needs of SGLang's host cache of a model with keys and values.

    The buffer is ``(2, layers, tokens, heads, channels)``, and a page is flat.
    """

    layout = "layer_first"
    page_size = PAGE
    start_layer, end_layer = 0, 3

    def __init__(self, dtype: torch.dtype = torch.bfloat16) -> None:
        self.dtype = dtype
        self.buffer = torch.zeros((2, 3, PAGES * PAGE, 2, 8), dtype=dtype)
        self.size_per_token = 2 * 3 * 2 * 8 * dtype.itemsize

    def get_data_page(self, index: int, flat: bool = True) -> torch.Tensor:
        return self.buffer[:, :, index : index + PAGE].flatten()

    def get_dummy_flat_data_page(self) -> torch.Tensor:
        return torch.zeros_like(self.get_data_page(0))

    def set_from_flat_data_page(self, index: int, page: torch.Tensor) -> None:
        self.buffer[:, :, index : index + PAGE] = page.reshape(2, 3, PAGE, 2, 8)


class StateCache:
    """The same of a state space's host cache: a page is one state, as bytes."""

    layout = "page_first"
    page_size = 1

    def __init__(self) -> None:
        self.buffer = torch.zeros((PAGES, 24), dtype=torch.uint8)

    def get_data_page(self, index: int, flat: bool = True) -> torch.Tensor:
        return self.buffer[index]

    def get_dummy_flat_data_page(self) -> torch.Tensor:
        return torch.zeros(24, dtype=torch.uint8)

    def set_from_flat_data_page(self, index: int, page: torch.Tensor) -> None:
        self.buffer[index] = page
