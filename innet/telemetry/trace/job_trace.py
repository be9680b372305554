"""The launcher's part of a traced job: samples the switches, and merges the ranks' files."""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from innet.errors import EmulationError
from innet.telemetry.trace.merge import merge_traces
from innet.telemetry.trace.recorder import TRACE_VARIABLE, CounterSample, TracedProcess, TraceRecord

_PERIOD_S = 0.1

_log = logging.getLogger(__name__)
_SORT_AFTER_RANKS = 1_000_000

ReadStatus = Callable[[], Awaitable[dict[str, dict[str, Any]]]]
"""The status of each running node (see ``NodeAgent.status``), by name."""


class SwitchSampler:
    """Samples counters of the switches into one file each, until it is cancelled."""

    def __init__(self, directory: Path, read_status: ReadStatus) -> None:
        self._directory = directory
        self._read_status = read_status
        self._sent_bytes: dict[str, tuple[int, int]] = {}

    async def run(self) -> None:
        """Sample until cancelled, or until a file cannot be written, which logs a warning."""
        try:
            await self._sample_for_ever()
        except OSError as error:
            _log.warning(
                "the trace of the switches ends here, the job goes on: files in %s cannot be "
                "written (%s)",
                self._directory,
                error.strerror,
            )

    async def _sample_for_ever(self) -> None:
        while True:
            status = await self._read_status()
            at_ns = time.monotonic_ns()
            for node, answer in status.items():
                if answer["kind"] == "switch":
                    await asyncio.to_thread(self._append, node, self._sample(node, answer, at_ns))
            await asyncio.sleep(_PERIOD_S)

    def _sample(self, node: str, answer: dict[str, Any], at_ns: int) -> list[TraceRecord]:
        records: list[TraceRecord] = []
        if node not in self._sent_bytes:
            records.append(TracedProcess(label=f"switch {node}", sort_index=_SORT_AFTER_RANKS))
        sent_bytes = sum(link["bytes_out"] for link in answer["links"])
        before_ns, before_bytes = self._sent_bytes.get(node, (at_ns, sent_bytes))
        self._sent_bytes[node] = (at_ns, sent_bytes)
        values = {
            "slots in use": answer["reducer"]["slots_in_use"],
            "cached bytes": answer["node"]["cache_bytes"],
            "pending Interests": answer["node"]["pit_entries"],
        }
        if at_ns > before_ns:
            values["sent Mbit/s"] = (sent_bytes - before_bytes) * 8e3 / (at_ns - before_ns)
        records += [
            CounterSample(name=name, at_ns=at_ns, values={name: value})
            for name, value in values.items()
        ]
        return records

    def _append(self, node: str, records: list[TraceRecord]) -> None:
        with (self._directory / f"switch-{node}.jsonl").open("a", encoding="utf-8") as file:
            file.writelines(record.model_dump_json() + "\n" for record in records)


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
    """The file that ``--trace`` means: ``argument``, or one inside when that is a directory."""
    path = argument.absolute()
    file = path / f"trace-{run_id}.json" if path.is_dir() else path
    if not file.parent.is_dir():
        raise EmulationError(
            f"{file.parent} is no directory; make it first, for --trace {argument}"
        )
    return file
