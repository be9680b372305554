"""The name of the backend, and the options of ``init_process_group("innet", pg_options=...)``."""

from __future__ import annotations

from dataclasses import dataclass

BACKEND_NAME = "innet"
"""The backend's name in ``init_process_group`` and in PyTorch's profilers."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of one process group; the same on every rank.

    Attributes:
        algorithm: as for :func:`innet.init`; ``None`` for what ``innet run --algorithm`` chose.

    Example::

        dist.init_process_group("innet", pg_options=innet.torch_backend.Options(algorithm="ring"))
    """

    algorithm: str | None = None
