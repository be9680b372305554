"""``torch.distributed.init_process_group("innet")``: PyTorch's collectives over innet.

PyTorch finds :func:`register` through the entry point group ``torch.backends``, and calls it at its
own import; that costs nothing, because the process group is imported when one is made.
"""

from innet.torch_backend.options import Options
from innet.torch_backend.registration import register

__all__ = ["Options", "register"]
