"""The launcher's part of a traced job."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from types import TracebackType
from typing import Self

from innet.errors import EmulationError
from innet.telemetry.trace.merge import merge_traces
from innet.telemetry.trace.recorder import TRACE_VARIABLE
from innet.telemetry.trace.switch_sampler import ReadStatus, SwitchSampler


class JobTrace:
    """Traces a job from entering to leaving; leaving, also by an error, writes the file.

    Attributes:
        environment: what the workers need in theirs.
    """

    def __init__(self, into: Path, directory: Path, read_status: ReadStatus) -> None:
        """Trace into the file ``into``, with ``directory`` for what the processes write."""
        self.environment = {TRACE_VARIABLE: str(directory)}
        self._into = into
        self._directory = directory
        self._sampler = SwitchSampler(directory, read_status)
        self._sampling: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._directory.mkdir, exist_ok=True)
        self._sampling = asyncio.create_task(self._sampler.run())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._sampling is not None:
            self._sampling.cancel()
            await asyncio.wait([self._sampling])
        try:
            await asyncio.to_thread(merge_traces, self._directory, self._into)
        except OSError as problem:
            raise EmulationError(
                f"the trace {self._into} cannot be written: {problem.strerror}"
            ) from error
        finally:
            await asyncio.to_thread(shutil.rmtree, self._directory, ignore_errors=True)


def trace_file(argument: Path, run_id: str) -> Path:
    """The file that ``--trace`` means: ``argument``, or one inside when that is a directory.

    Raises:
        EmulationError: its directory does not exist.
    """
    path = argument.absolute()
    file = path / f"trace-{run_id}.json" if path.is_dir() else path
    if not file.parent.is_dir():
        raise EmulationError(
            f"{file.parent} is no directory; make it first, for --trace {argument}"
        )
    return file
