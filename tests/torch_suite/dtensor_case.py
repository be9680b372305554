"""PyTorch's base class for tests of DTensor, with innet as the backend of its processes."""

from __future__ import annotations

import torch.distributed as dist

from tests.torch_suite.forked_ranks import ForkedRanks
from tests.torch_suite.upstream import BACKEND, WORLD_SIZE, import_quietly

common_dtensor = import_quietly("torch.testing._internal.distributed._tensor.common_dtensor")
with_comms = common_dtensor.with_comms


class DTensorCase(ForkedRanks, common_dtensor.DTensorTestBase):
    """A test method runs on every rank; ``@with_comms`` makes and destroys the process group."""

    @property
    def world_size(self) -> int:
        return WORLD_SIZE

    @property
    def device_type(self) -> str:
        return "cpu"

    def init_pg(self, eager_init: bool, backend: str | None = None) -> None:
        # The inherited method knows the backends by name.
        dist.init_process_group(
            BACKEND,
            world_size=self.world_size,
            rank=self.rank,
            init_method=f"file://{self.file_name}",
        )
