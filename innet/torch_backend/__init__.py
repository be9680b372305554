"""``torch.distributed.init_process_group("innet")``: PyTorch's collectives over innet.

PyTorch finds :func:`register` through the entry point group ``torch.backends``, and calls it at its
own import; that costs nothing, because the process group is imported when one is made.
"""

from typing import TYPE_CHECKING, Any

from innet.torch_backend.options import Options
from innet.torch_backend.registration import register

if TYPE_CHECKING:
    from innet.torch_backend.recovery import recover

__all__ = ["Options", "recover", "register"]


def __getattr__(name: str) -> Any:
    if name != "recover":
        raise AttributeError(f"module 'innet.torch_backend' has no attribute {name!r}")
    from innet.torch_backend.recovery import recover

    return recover
