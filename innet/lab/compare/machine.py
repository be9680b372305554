"""The machine that a measurement was taken on."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import numpy as np
import psutil
from pydantic import BaseModel, ConfigDict, Field

from innet import __version__

_BUSY_LOAD_PER_CORE = 0.5


class Machine(BaseModel):
    """What a reader must know to judge or repeat a measurement."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    date: str = Field(description="UTC, ISO 8601")
    processor: str
    cores: int = Field(description="that this process may use")
    memory_bytes: int
    kernel: str
    python: str
    numpy: str
    innet: str
    load: float = Field(description="processes that wanted to run, mean of the minute before")

    @classmethod
    def here(cls) -> Self:
        """This machine, now."""
        return cls(
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            processor=_processor(),
            cores=len(os.sched_getaffinity(0)),
            memory_bytes=psutil.virtual_memory().total,
            kernel=f"{platform.system()} {platform.release()}",
            python=platform.python_version(),
            numpy=np.__version__,
            innet=__version__,
            load=round(os.getloadavg()[0], 2),
        )

    @property
    def is_busy(self) -> bool:
        """Whether other work took the processors just before, so that times can be too long."""
        return self.load > _BUSY_LOAD_PER_CORE * self.cores

    def __str__(self) -> str:
        return (
            f"{self.cores} cores of {self.processor}, {self.memory_bytes / 2**30:.0f} GiB, "
            f"{self.kernel}, Python {self.python}"
        )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()
