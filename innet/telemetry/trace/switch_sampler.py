"""Counters of the switches while a job runs, asked from their control sockets."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from innet.telemetry.trace.records import Counters, Record, Source

_PERIOD_S = 0.1

_log = logging.getLogger(__name__)
_SORT_AFTER_RANKS = 1_000_000

ReadStatus = Callable[[], Awaitable[dict[str, dict[str, Any]]]]
"""What each node that runs answers (see ``NodeAgent.status``), by name."""


class SwitchSampler:
    """Writes a file for each switch, until it is cancelled."""

    def __init__(self, directory: Path, read_status: ReadStatus) -> None:
        self._directory = directory
        self._read_status = read_status
        self._sent_bytes: dict[str, tuple[int, int]] = {}

    async def run(self) -> None:
        """Sample for ever, or until a file cannot be written: a warning says so then."""
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

    def _sample(self, node: str, answer: dict[str, Any], at_ns: int) -> list[Record]:
        records: list[Record] = []
        if node not in self._sent_bytes:
            records.append(Source(label=f"switch {node}", sort_index=_SORT_AFTER_RANKS))
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
            Counters(name=name, at_ns=at_ns, values={name: value}) for name, value in values.items()
        ]
        return records

    def _append(self, node: str, records: list[Record]) -> None:
        with (self._directory / f"switch-{node}.jsonl").open("a", encoding="utf-8") as file:
            file.writelines(record.model_dump_json() + "\n" for record in records)
