"""Records the operations and spans of one worker, in a file of its own in the run directory.

The file has one JSON document per line; times are CLOCK_MONOTONIC in ns, which all processes of a
machine share.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, TypeAdapter

from innet._native import _core
from innet.validation_messages import StrictModel

TRACE_VARIABLE = "INNET_TRACE"
"""Environment variable with the directory for the files of a traced job; not set: no trace."""

_FLUSH_PERIOD_S = 0.1

_log = logging.getLogger(__name__)

_TakeTimes = Callable[[], list[tuple[int, int | None, int | None, int]]]


class Recorder:
    """Collects records, and writes them on a thread of its own, several times a second.

    The file of a killed process has the records until then. When the file cannot be written (the
    disk is full), the recorder logs a warning and stops; the job continues. Thread-safe.
    """

    def __init__(self, path: Path, source: TracedProcess, node: _core.Node) -> None:
        # Hooks of PyTorch hold the recorder to the end of the process; it must not hold the node.
        self._take_times: _TakeTimes | None = node.take_operation_times
        self._records: deque[TraceRecord] = deque([source])
        self._file = path.open("x", encoding="utf-8")
        self._closing = threading.Event()
        self._lost = False
        node.keep_operation_times()
        self._thread = threading.Thread(target=self._run, name="innet-trace", daemon=True)
        self._thread.start()

    @classmethod
    def from_environment(cls, node: _core.Node, rank: int, node_name: str) -> Self | None:
        """The recorder of this worker when its job is traced."""
        directory = os.environ.get(TRACE_VARIABLE)
        if not directory:
            return None
        source = TracedProcess(label=f"rank {rank} ({node_name})", sort_index=rank)
        # A process that takes this one's place, or a node that takes this node's, has another file.
        path = Path(directory) / f"rank-{rank}-{time.monotonic_ns()}.jsonl"
        try:
            return cls(path, source, node)
        except OSError as error:
            _log.warning("no trace of this process: %s cannot be made (%s)", path, error.strerror)
            return None

    def begin(self, operation: int, what: str, category: str, /, **details: str | int) -> None:
        """An operation of the node was called; its end is known from the node."""
        self._add(
            OperationBegin(
                operation=operation,
                name=what.partition("(")[0],
                category=category,
                called_ns=time.monotonic_ns(),
                details={"what": what, **details},
            )
        )

    def span(self, name: str, category: str, began_ns: int) -> None:
        """The calling thread did something from ``began_ns`` (``time.monotonic_ns``) until now."""
        self._add(
            Span(
                name=name,
                category=category,
                thread=threading.get_native_id(),
                began_ns=began_ns,
                ended_ns=time.monotonic_ns(),
            )
        )

    def close(self) -> None:
        """Write the remaining records, and none from now on. Call it before the node stops."""
        self._closing.set()
        self._thread.join()
        self._flush_or_end()
        self._take_times = None
        with contextlib.suppress(OSError):  # the buffer is lost; the first error was reported
            self._file.close()

    def _add(self, record: TraceRecord) -> None:
        if not self._closing.is_set() and not self._lost:
            self._records.append(record)

    def _run(self) -> None:
        while not self._closing.wait(_FLUSH_PERIOD_S):
            self._flush_or_end()

    def _flush_or_end(self) -> None:
        if self._lost:
            self._records.clear()
            if self._take_times is not None:
                self._take_times()  # else the node keeps them
            return
        try:
            self._flush()
        except OSError as error:
            self._lost = True
            _log.warning(
                "the trace of this process ends here, the job goes on: %s cannot be written (%s). "
                "Free some space, or set XDG_RUNTIME_DIR to a place that has more",
                self._file.name,
                error.strerror,
            )

    def _flush(self) -> None:
        # Begun before ended: an end that is taken here belongs to a begin that is in the file.
        self._write_records()
        ends = [] if self._take_times is None else self._take_times()
        self._write_records()
        for operation, started_ns, first_segment_ns, ended_ns in ends:
            self._write(
                OperationEnd(
                    operation=operation,
                    started_ns=started_ns,
                    first_segment_ns=first_segment_ns,
                    ended_ns=ended_ns,
                )
            )
        self._file.flush()

    def _write_records(self) -> None:
        while self._records:
            self._write(self._records.popleft())

    def _write(self, record: TraceRecord) -> None:
        self._file.write(record.model_dump_json() + "\n")


class TracedProcess(StrictModel):
    """The process that writes the file; its first line."""

    kind: Literal["source"] = "source"
    label: str
    sort_index: int


class OperationBegin(StrictModel):
    """An operation was called."""

    kind: Literal["begin"] = "begin"
    operation: int
    name: str
    category: str
    called_ns: int
    details: dict[str, str | int]


class OperationEnd(StrictModel):
    """An operation ended; ``None`` for events that did not happen before."""

    kind: Literal["end"] = "end"
    operation: int
    started_ns: int | None
    first_segment_ns: int | None
    ended_ns: int


class Span(StrictModel):
    """An activity of a thread."""

    kind: Literal["span"] = "span"
    name: str
    category: str
    thread: int
    began_ns: int
    ended_ns: int


class CounterSample(StrictModel):
    """Values at one moment."""

    kind: Literal["counters"] = "counters"
    name: str
    at_ns: int
    values: dict[str, float]


TraceRecord = TracedProcess | OperationBegin | OperationEnd | Span | CounterSample
record_adapter: TypeAdapter[TraceRecord] = TypeAdapter(
    Annotated[TraceRecord, Field(discriminator="kind")]
)
