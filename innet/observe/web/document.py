"""The JSON of the live view: the picture of a network, its frames and events, recording files.

A recording is a text file of JSON lines. The first is a :class:`Picture`; each other is a
:class:`Line` with a frame or an event, ordered by time. docs/live-view.md describes the fields.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, BinaryIO, Final, Literal, overload

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    ValidationError,
    model_validator,
)

from innet.cluster.emulation.recorded_parts import MachineState
from innet.cluster.run_state import NodeState
from innet.errors import TelemetryError
from innet.observe.web.layout import positions, tier_numbers
from innet.output_files import open_output
from innet.printable import one_line
from innet.topology import Host, Interface, Link, Switch, Topology
from innet.validation_messages import at_most, first_message

FORMAT: Final = "innet recording"
VERSION: Final = 1
SUFFIX: Final = ".innetrec"

MOST_NODES: Final = 20_000
MOST_LINKS: Final = 8 * MOST_NODES
MOST_LINE_BYTES: Final = 16 * 2**20
MOST_FILE_BYTES: Final = 1 << 30
MOST_LINES: Final = 100_000
_LONGEST_REASON: Final = 300
_MOST_OBJECTS: Final = MOST_NODES + MOST_LINKS + 1
"""In one line; an empty one takes 100 times the memory of its text while it is read."""
_MOST_VALUES: Final = 16 * MOST_LINKS
_MOST_JOBS: Final = 4096


def _renamed_state(state: object) -> object:
    """A state of a recording of an earlier version."""
    return "lost" if state == "gone" else state


ShownState = Annotated[NodeState, BeforeValidator(_renamed_state)]

_Name = Annotated[str, Field(max_length=256)]
_Text = Annotated[str, Field(max_length=4096)]
_Figures = Annotated[tuple[float | None, ...], FailFast(), Field(max_length=2 * MOST_LINKS)]
_Nodes = Annotated[tuple[_Name, ...], FailFast(), Field(max_length=MOST_NODES)]


class _Document(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class NodePicture(_Document):
    """A node: what it is and where it is drawn."""

    name: _Name
    kind: Literal["host", "switch"]
    x: float
    y: float
    tier: int = 0
    slots: int = 0


class LinkPicture(_Document):
    """A link between two nodes, by their places in the list of nodes."""

    a: Annotated[int, Field(ge=0)]
    b: Annotated[int, Field(ge=0)]
    rate_bps: float | None = None
    delay_s: float = 0.0
    queue_bytes: int = 0


class Picture(_Document):
    """The unchanging part of a watched network; the first line of a recording."""

    format: Literal["innet recording"] = FORMAT
    version: Literal[1] = VERSION
    run: _Name
    topology: _Name
    mode: _Name
    nodes: Annotated[tuple[NodePicture, ...], FailFast(), Field(max_length=MOST_NODES)]
    links: Annotated[tuple[LinkPicture, ...], FailFast(), Field(max_length=MOST_LINKS)]
    virtual_time: bool = False
    """Times are seconds of a simulation, not Unix times."""
    live: bool = False
    examined: bool = False
    """Whether the doctor looks at the run; only then are there findings, jobs and ranks."""
    commands: bool = False
    """Whether the server passes on commands to nodes."""

    def directions(self) -> Iterator[tuple[str, str]]:
        """Both directions of each link, in the order of :class:`LinkFigures`."""
        for link in self.links:
            a, b = self.nodes[link.a].name, self.nodes[link.b].name
            yield a, b
            yield b, a

    @model_validator(mode="after")
    def _check_links(self) -> Picture:
        if any(max(link.a, link.b) >= len(self.nodes) for link in self.links):
            raise ValueError("a link names a node that is not in the list of nodes")
        return self


class NodeFigures(_Document):
    """Figures of all nodes, each a list in the order of the picture's nodes."""

    cpu: _Figures = ()
    """Shares of one core."""
    memory_bytes: _Figures = ()
    slots_in_use: _Figures = ()
    sums_per_s: _Figures = ()
    cache_hit_rate: _Figures = ()
    cache_bytes: _Figures = ()
    pending: _Figures = ()
    fetched_bps: _Figures = ()
    refused_per_s: _Figures = ()


class LinkFigures(_Document):
    """Figures of directions: of link ``i``, ``2 i`` is from ``a`` to ``b``, ``2 i + 1`` back."""

    bps: _Figures = ()
    queue_bytes: _Figures = ()
    drops_per_s: _Figures = ()


class Wait(_Document):
    """An operation that a rank has not completed."""

    node: _Name
    number: int
    missing: _Text = ""
    late: Annotated[tuple[_Text, ...], FailFast(), Field(max_length=MOST_NODES)] = ()


class GroupLine(_Document):
    """A group of a job."""

    name: _Text
    algorithm: _Text
    ranks: _Nodes
    joined: int


class JobLine(_Document):
    """A job and its groups."""

    name: _Text
    hosts: _Nodes
    groups: Annotated[tuple[GroupLine, ...], FailFast(), Field(max_length=_MOST_JOBS)] = ()


class FindingLine(_Document):
    """A finding of the doctor."""

    check: _Name
    subject: _Text
    problem: _Text
    remedy: _Text
    more: _Text = ""
    level: Literal["problem", "note"] = "problem"


class MachineLine(_Document):
    """A machine of the network, in ``cluster`` mode."""

    name: _Name
    state: MachineState
    address: _Name = ""
    since_s: float = 0.0
    why: _Text = ""
    nodes: _Nodes = ()
    ran: _Nodes = ()


class EventLine(_Document):
    """An event of a process."""

    time_s: float
    source: _Name
    kind: _Name
    message: _Text
    alarming: bool = False


class Frame(_Document):
    """The network at one moment."""

    time_s: float
    states: Annotated[dict[_Name, ShownState], at_most(MOST_NODES)] = {}
    """The states of nodes that are not ``up``."""
    nodes: NodeFigures = NodeFigures()
    links: LinkFigures = LinkFigures()
    cut: Annotated[tuple[int, ...], FailFast(), Field(max_length=MOST_LINKS)] = ()
    """Links that carry nothing, by their places in the picture."""
    machines: Annotated[tuple[MachineLine, ...], FailFast(), Field(max_length=MOST_NODES)] = ()
    late: _Nodes = ()
    """Nodes that others wait for."""
    waits: Annotated[tuple[Wait, ...], FailFast(), Field(max_length=MOST_NODES)] = ()
    jobs: Annotated[tuple[JobLine, ...], FailFast(), Field(max_length=_MOST_JOBS)] = ()
    findings: Annotated[tuple[FindingLine, ...], FailFast(), Field(max_length=_MOST_JOBS)] = ()


class Line(_Document):
    """One line of a recording after the first: a frame or an event."""

    frame: Frame | None = None
    event: EventLine | None = None

    def as_json(self) -> str:
        """Without line breaks, and without what is empty."""
        return self.model_dump_json(exclude_defaults=True)

    @property
    def time_s(self) -> float:
        """When it happened."""
        if self.frame is not None:
            return self.frame.time_s
        return 0.0 if self.event is None else self.event.time_s


def picture_of(topology: Topology, run: str, mode: str, *, virtual_time: bool = False) -> Picture:
    """The picture of a topology."""
    places, tier_of = positions(topology), tier_numbers(topology)
    index = {name: number for number, name in enumerate(topology.nodes)}
    return Picture(
        run=run,
        topology=topology.name,
        mode=mode,
        virtual_time=virtual_time,
        nodes=tuple(
            NodePicture(
                name=name,
                kind=node.kind,
                x=round(places[name][0], 3),
                y=round(places[name][1], 3),
                tier=tier_of.get(name, 0),
                slots=node.slots if isinstance(node, Switch) else 0,
            )
            for name, node in topology.nodes.items()
        ),
        links=tuple(
            LinkPicture(
                a=index[link.a.node],
                b=index[link.b.node],
                rate_bps=link.rate_bps,
                delay_s=link.delay_s,
                queue_bytes=link.queue_bytes,
            )
            for link in topology.links
        ),
    )


def topology_of_neighbours(
    name: str, kinds: dict[str, str], neighbours: Iterable[tuple[str, str]]
) -> Topology:
    """A topology from what nodes report about themselves, where its file is on another machine.

    Rates are unknown; a neighbour that reports nothing is a host.
    """
    pairs = sorted({(min(pair), max(pair)) for pair in neighbours})
    named = {node for pair in pairs for node in pair} | set(kinds)
    nodes: dict[str, Host | Switch] = {
        node: Switch(name=node) if kinds.get(node) == "switch" else Host(name=node)
        for node in sorted(named)
    }
    links = tuple(
        Link(a=Interface(node=a, port=f"to-{b}"), b=Interface(node=b, port=f"to-{a}"))
        for a, b in pairs
    )
    return Topology(name=name, nodes=nodes, links=links)


class StoredLines(Sequence[Line]):
    """Lines as their text, which takes a tenth of the memory; each is parsed when it is used."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.times_s = array("d")

    def append(self, line: Line) -> None:
        """Add a line."""
        self.texts.append(line.as_json())
        self.times_s.append(line.time_s)

    @overload
    def __getitem__(self, place: int) -> Line: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Line]: ...

    def __getitem__(self, place: int | slice) -> Line | Sequence[Line]:
        if isinstance(place, slice):
            return tuple(Line.model_validate_json(text) for text in self.texts[place])
        return Line.model_validate_json(self.texts[place])

    def __len__(self) -> int:
        return len(self.texts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # it grows


@dataclass(frozen=True)
class Recording:
    """A picture and what happened."""

    picture: Picture
    lines: Sequence[Line]

    def text(self) -> Iterator[str]:
        """The lines of its file."""
        yield f"{self.picture.model_dump_json()}\n"
        for line in self.lines:
            yield f"{line.as_json()}\n"

    def write(self, path: Path) -> None:
        """Write the file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_output(path) as file:
            file.writelines(line.encode() for line in self.text())


def read_recording(path: Path) -> Recording:
    """Read a recording; everything in it is checked.

    Raises:
        TelemetryError: there is no such file, or it is no recording of this version.
    """
    try:
        if path.stat().st_size > MOST_FILE_BYTES:
            raise TelemetryError(
                f"{path} is larger than a recording can be ({MOST_FILE_BYTES >> 20} MiB). "
                "Export a shorter one."
            )
        with path.open("rb") as file:
            picture = _picture(path, file.readline(MOST_LINE_BYTES + 1))
            lines = StoredLines()
            for line in _lines(path, file):
                lines.append(line)
            return Recording(picture, lines)
    except OSError as error:
        raise TelemetryError(
            f"{path} cannot be read: {error.strerror}. Give a recording that the page exported, or "
            "that `innet sim --record` wrote."
        ) from error


def _picture(path: Path, line: bytes) -> Picture:
    _require_small(path, 1, line)
    try:
        found = json.loads(line)
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise ValueError
    except (ValueError, RecursionError):
        raise TelemetryError(
            f"{path} is no recording of innet. Give a file that the page exported, or that "
            "`innet sim --record` wrote."
        ) from None
    if found.get("version") != VERSION:
        raise TelemetryError(
            f"{path} is a recording of version {found.get('version')!r}; this innet reads version "
            f"{VERSION}. Open it with the innet that wrote it."
        )
    try:
        return Picture.model_validate(found)
    except ValidationError as error:
        raise _damaged(path, 1, one_line(first_message(error))) from None


def _lines(path: Path, file: BinaryIO) -> Iterator[Line]:
    number = 1
    while text := file.readline(MOST_LINE_BYTES + 1):
        number += 1
        if number > MOST_LINES:
            raise TelemetryError(
                f"{path} has more than {MOST_LINES} lines. Export a shorter recording."
            )
        _require_small(path, number, text)
        try:
            yield Line.model_validate_json(text)
        except ValidationError as error:
            raise _damaged(path, number, one_line(first_message(error))) from None


def _require_small(path: Path, number: int, line: bytes) -> None:
    """Refuse a line before its parser takes a multiple of its size."""
    objects, values = line.count(b"{") + line.count(b"["), line.count(b",")
    if len(line) > MOST_LINE_BYTES or objects > _MOST_OBJECTS or values > _MOST_VALUES:
        raise _damaged(path, number, "it is larger than a network can be")


def _damaged(path: Path, number: int, why: str) -> TelemetryError:
    return TelemetryError(
        f"{path} is damaged in line {number}: {why[:_LONGEST_REASON]}. Remove the line, or export "
        "the recording again."
    )
