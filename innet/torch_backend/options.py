"""The name of the backend, and what ``init_process_group("innet", pg_options=...)`` takes."""

from __future__ import annotations

from dataclasses import dataclass

BACKEND_NAME = "innet"
"""What ``init_process_group`` and PyTorch's profilers call the backend."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of one process group; the same on every rank.

    Attributes:
        algorithm: as for :func:`innet.init`; ``None`` for what ``innet run --algorithm`` chose.

    Example::

        dist.init_process_group("innet", pg_options=innet.torch_backend.Options(algorithm="ring"))
    """

    algorithm: str | None = None
