"""What processes write down: one JSON document on a line each; times in ns of the one clock.

CLOCK_MONOTONIC is the same for all processes of a machine, so nothing has to be aligned.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(_Record):
    """Who writes the file; its first line."""

    kind: Literal["source"] = "source"
    label: str
    sort_index: int


class Begin(_Record):
    """An operation was called."""

    kind: Literal["begin"] = "begin"
    operation: int
    name: str
    category: str
    called_ns: int
    details: dict[str, str | int]


class End(_Record):
    """An operation ended; ``None`` for what did not happen before."""

    kind: Literal["end"] = "end"
    operation: int
    started_ns: int | None
    first_segment_ns: int | None
    ended_ns: int


class Span(_Record):
    """Something that a thread did."""

    kind: Literal["span"] = "span"
    name: str
    category: str
    thread: int
    began_ns: int
    ended_ns: int


class Counters(_Record):
    """Values at one moment."""

    kind: Literal["counters"] = "counters"
    name: str
    at_ns: int
    values: dict[str, float]


Record = Source | Begin | End | Span | Counters
record_adapter: TypeAdapter[Record] = TypeAdapter(Annotated[Record, Field(discriminator="kind")])
