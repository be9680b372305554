"""Merges the files of a job's processes into one file in Chrome's trace event format.

The format is described in "Trace Event Format" (Google, 2016); chrome://tracing and Perfetto
(ui.perfetto.dev) open it. Each rank and switch is a process there. Operations overlap, and spans of
one track must not: each rank has as many tracks for operations as it had under way at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from innet.output_files import replace_output
from innet.telemetry.trace.recorder import (
    CounterSample,
    OperationBegin,
    OperationEnd,
    Span,
    TracedProcess,
    TraceRecord,
    record_adapter,
)

Event = dict[str, Any]

_FIRST_OPERATION_TRACK = 1000


class SourceRecords:
    """The records of one process."""

    def __init__(self, records: Iterable[TraceRecord]) -> None:
        self.source = TracedProcess(label="unknown", sort_index=0)
        self.begins: list[OperationBegin] = []
        self.ends: dict[int, OperationEnd] = {}
        self.spans: list[Span] = []
        self.counters: list[CounterSample] = []
        for record in records:
            match record:
                case TracedProcess():
                    self.source = record
                case OperationBegin():
                    self.begins.append(record)
                case OperationEnd():
                    self.ends[record.operation] = record
                case Span():
                    self.spans.append(record)
                case CounterSample():
                    self.counters.append(record)

    def times_ns(self) -> Iterator[int]:
        """Every moment that occurs."""
        for begin in self.begins:
            yield begin.called_ns
        for end in self.ends.values():
            yield end.ended_ns
        for span in self.spans:
            yield span.began_ns
            yield span.ended_ns
        for counters in self.counters:
            yield counters.at_ns


def merge_traces(directory: Path, into: Path) -> None:
    """Write all records in the files of ``directory`` to ``into``, atomically.

    Unfinished lines of killed processes are left out. Operations that never ended last until the
    end of the trace, and are marked ``unfinished``.

    Raises:
        OSError: ``into`` cannot be written.
    """
    sources = sorted(
        (SourceRecords(_read(path)) for path in sorted(directory.glob("*.jsonl"))),
        key=lambda records: (records.source.sort_index, records.source.label),
    )
    times_ns = [time_ns for records in sources for time_ns in records.times_ns()]
    first_ns, last_ns = min(times_ns, default=0), max(times_ns, default=0)
    events = (
        event
        for pid, records in enumerate(sources)
        for event in _SourceEvents(pid, records, first_ns, last_ns).all()
    )
    replace_output(into, _document(events))


class _SourceEvents:
    """The events of one process; ``first_ns`` is the trace's zero."""

    def __init__(self, pid: int, records: SourceRecords, first_ns: int, last_ns: int) -> None:
        self._pid = pid
        self._records = records
        self._first_ns = first_ns
        self._last_ns = last_ns

    def all(self) -> Iterator[Event]:
        source = self._records.source
        yield self._metadata("process_name", {"name": source.label})
        yield self._metadata("process_sort_index", {"sort_index": source.sort_index})
        yield from self._program()
        yield from self._operations()
        for counters in self._records.counters:
            yield {
                "ph": "C",
                "name": counters.name,
                "pid": self._pid,
                "tid": 0,
                "ts": self._us(counters.at_ns),
                "args": counters.values,
            }

    def _program(self) -> Iterator[Event]:
        threads = sorted({span.thread for span in self._records.spans})
        for tid, thread in enumerate(threads):
            name = "program" if tid == 0 else f"program, thread {tid + 1}"
            yield self._metadata("thread_name", {"name": name}, tid)
            own = [span for span in self._records.spans if span.thread == thread]
            # The outer of two spans that begin together goes first: so they nest.
            for span in sorted(own, key=lambda s: (s.began_ns, -s.ended_ns)):
                yield self._complete(span.name, span.category, tid, span.began_ns, span.ended_ns)

    def _operations(self) -> Iterator[Event]:
        free_from_ns: list[int] = []
        for begin in sorted(self._records.begins, key=lambda b: b.called_ns):
            end = self._records.ends.get(begin.operation)
            # An end is read from the node's clock, a call from Python's after it: never backwards.
            ended_ns = self._last_ns if end is None else max(end.ended_ns, begin.called_ns)
            track = next(
                (t for t, free_ns in enumerate(free_from_ns) if free_ns <= begin.called_ns), None
            )
            if track is None:
                track = len(free_from_ns)
                free_from_ns.append(0)
                yield self._metadata(
                    "thread_name",
                    {"name": f"operations {track + 1}"},
                    _FIRST_OPERATION_TRACK + track,
                )
            free_from_ns[track] = ended_ns
            yield from self._operation(begin, end, _FIRST_OPERATION_TRACK + track, ended_ns)

    def _operation(
        self, begin: OperationBegin, end: OperationEnd | None, track: int, ended_ns: int
    ) -> Iterator[Event]:
        details: dict[str, Any] = dict(begin.details)
        if end is None:
            details["unfinished"] = True
        name = f"{begin.name} {details['seq']}" if "seq" in details else begin.name
        yield self._complete(name, begin.category, track, begin.called_ns, ended_ns, details)
        marks_ns = [("queued", begin.called_ns)]
        if end is not None and end.started_ns is not None:
            marks_ns.append(("first segment", max(end.started_ns, begin.called_ns)))
            if end.first_segment_ns is not None:
                first_ns = max(end.first_segment_ns, marks_ns[-1][1])
                marks_ns.append(("transfer", first_ns))
        ends_ns = [*(at_ns for _, at_ns in marks_ns[1:]), ended_ns]
        for (stage, from_ns), to_ns in zip(marks_ns, ends_ns, strict=True):
            if to_ns > from_ns:
                yield self._complete(stage, "stage", track, from_ns, min(to_ns, ended_ns))

    def _complete(
        self,
        name: str,
        category: str,
        tid: int,
        began_ns: int,
        ended_ns: int,
        details: dict[str, Any] | None = None,
    ) -> Event:
        return {
            "ph": "X",
            "name": name,
            "cat": category,
            "pid": self._pid,
            "tid": tid,
            "ts": self._us(began_ns),
            "dur": (ended_ns - began_ns) / 1e3,
            "args": details or {},
        }

    def _metadata(self, name: str, values: dict[str, Any], tid: int = 0) -> Event:
        return {"ph": "M", "name": name, "pid": self._pid, "tid": tid, "args": values}

    def _us(self, at_ns: int) -> float:
        return (at_ns - self._first_ns) / 1e3


def _read(path: Path) -> Iterator[TraceRecord]:
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                yield record_adapter.validate_json(line)
            except ValidationError:
                continue


def _document(events: Iterable[Event]) -> Iterator[str]:
    yield '{"displayTimeUnit": "ms", "traceEvents": [\n'
    for number, event in enumerate(events):
        yield (",\n" if number else "") + json.dumps(event)
    yield "\n]}\n"
