"""The rendezvous of ``torchrun``'s agents in a job of ``innet run``.

``torchrun`` finds :func:`handler` through the entry point group ``torchrun.handlers``. This module
imports little, because every agent imports it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.distributed.elastic.rendezvous import RendezvousHandler, RendezvousParameters

BACKEND = "innet"
"""Name of this rendezvous: ``torchrun --rdzv-backend innet``."""
ENDPOINT_VARIABLE = "PET_RDZV_ENDPOINT"
"""From which ``torchrun`` takes ``--rdzv-endpoint`` by default."""
FILE_VARIABLE = "INNET_RENDEZVOUS"
"""Environment variable with the path of the job's file for the agents."""


def handler() -> Callable[[RendezvousParameters], RendezvousHandler]:
    """The function that creates the rendezvous of one agent."""
    return _create


def _create(parameters: RendezvousParameters) -> RendezvousHandler:
    """Meet through the job's file, or at the endpoint that the user gave to ``torchrun``.

    PyTorch's ``c10d`` can use a file as well, but then takes the user's ``host:port`` for its name.
    """
    from torch.distributed.elastic.rendezvous import c10d_rendezvous_backend as c10d
    from torch.distributed.elastic.rendezvous.dynamic_rendezvous import create_handler

    class NamedBackend(c10d.C10dRendezvousBackend):
        """A rendezvous backend with the name that ``torchrun`` was given."""

        @property
        def name(self) -> str:
            return BACKEND

    file = os.environ.get(FILE_VARIABLE)
    if file is not None and parameters.endpoint == os.environ.get(ENDPOINT_VARIABLE):
        parameters.endpoint = file
        parameters.config["store_type"] = "file"
    _, store = c10d.create_backend(parameters)
    return create_handler(store, NamedBackend(store, parameters.run_id), parameters)
