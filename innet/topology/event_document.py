"""Events as they stand in topology and workload files."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from innet.quantities import Quantity, QuantityError, format_duration, parse_duration_s
from innet.topology.events import Anything, Event, Target
from innet.topology.settings import LinkSettings, written_link_settings
from innet.topology.specification import Specification, optional

_LINK_JOINT = "--"

Duration = Annotated[
    float,
    BeforeValidator(parse_duration_s),
    WithJsonSchema({"type": ["string", "number"], "examples": ["10ms", "1.5s", 0]}),
]


def _positive_duration(value: Quantity) -> float:
    duration_s = parse_duration_s(value)
    if duration_s <= 0:
        raise QuantityError("a duration above 0, such as 10ms", value)
    return duration_s


PositiveDuration = Annotated[
    float,
    BeforeValidator(_positive_duration),
    WithJsonSchema({"type": "string", "examples": ["10ms", "1.5s"]}),
]


def texts_of(value: Any, expected: str) -> list[str]:
    """A text, or a list of some, as a list.

    Raises:
        QuantityError: it is neither; the message says what was expected.
    """
    texts = value if isinstance(value, list) else [value]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise QuantityError(expected, value)
    return texts


def _nodes(value: Any) -> tuple[Target, ...] | Anything:
    if value in ("any host", "any switch", "any node"):
        found: Anything = value
        return found
    expected = 'a node such as s0, a list of nodes, or "any switch", "any host", "any node"'
    return tuple((text,) for text in texts_of(value, expected))


def _links(value: Any) -> tuple[Target, ...] | Anything:
    if value == "any link":
        return "any link"
    expected = 'a link such as "h0 -- s0", a list of links, or "any link"'
    targets = []
    for text in texts_of(value, expected):
        ends = tuple(part.strip() for part in text.split(_LINK_JOINT))
        if len(ends) != 2 or not all(ends):
            raise QuantityError(expected, value)
        targets.append(ends)
    return tuple(targets)


def texts_schema(*examples: str) -> WithJsonSchema:
    """The JSON schema of a text, or a list of some."""
    text = {"type": "string", "examples": list(examples)}
    return WithJsonSchema({"anyOf": [text, {"type": "array", "items": text, "minItems": 1}]})


Nodes = Annotated[
    tuple[Target, ...] | Anything, BeforeValidator(_nodes), texts_schema("s0", "any switch")
]
Links = Annotated[
    tuple[Target, ...] | Anything, BeforeValidator(_links), texts_schema("h0 -- s0", "any link")
]


class _EventSpecification(Specification):
    """When: once, ``every`` so often, or at random with a mean ``rate`` a second."""

    at: Duration = Field(default=0.0, description="virtual time; random events begin from here on")
    every: PositiveDuration = optional("again after so long, and so on")
    rate: float = optional("at random, so many times a second in the mean", gt=0, le=1e6)
    until: Duration = optional("nothing begins from here on")

    @model_validator(mode="after")
    def _one_rhythm(self) -> _EventSpecification:
        if {"every", "rate"} <= self.model_fields_set:
            raise ValueError("expected 'every' or 'rate', found both")
        return self


def _lasting(text: str) -> Any:
    return optional(f"{text}; by default for ever", alias="for")


class LinkDown(_EventSpecification):
    """A link loses everything, both ways."""

    kind: Literal["link-down"]
    link: Links = Field(description="which; of several, one is drawn each time")
    lasts: PositiveDuration = _lasting("after which it is up again")


class LinkChange(_EventSpecification):
    """A link becomes slower, longer or worse, both ways, or better."""

    kind: Literal["link-change"]
    link: Links = Field(description="which; of several, one is drawn each time")
    to: LinkSettings = Field(description="what it is like then; the rest stays")
    lasts: PositiveDuration = _lasting("after which it is as the topology says")


class Crash(_EventSpecification):
    """A node loses all that it has."""

    kind: Literal["crash"]
    node: Nodes = Field(description="which; of several, one is drawn each time")
    lasts: PositiveDuration = _lasting("after which it starts again, empty")


class Pause(_EventSpecification):
    """A node stands still, and so does computing on it; its buffers hold what arrives."""

    kind: Literal["pause"]
    node: Nodes = Field(description="which; of several, one is drawn each time")
    lasts: PositiveDuration = _lasting("after which it goes on")


class ClockJump(_EventSpecification):
    """A node's clock jumps ahead."""

    kind: Literal["clock-jump"]
    node: Nodes = Field(description="which; of several, one is drawn each time")
    by: PositiveDuration = Field(description="by how much")


class Straggle(_EventSpecification):
    """Computing on a host takes longer."""

    kind: Literal["straggle"]
    node: Nodes = Field(description="which host; of several, one is drawn each time")
    factor: float = Field(gt=0, le=1e6, description="computing takes so many times as long")
    lasts: PositiveDuration = _lasting("after which it is as fast as before")


EventSpecification = Annotated[
    LinkDown | LinkChange | Crash | Pause | ClockJump | Straggle, Field(discriminator="kind")
]


def event_of(written: EventSpecification) -> Event:
    """What was written, as a simulation takes it."""
    lasts_s = None if isinstance(written, ClockJump) else written.lasts
    return Event(
        kind=written.kind,
        targets=written.link if isinstance(written, LinkDown | LinkChange) else written.node,
        at_s=written.at,
        every_s=written.every,
        rate_per_s=written.rate,
        until_s=written.until,
        lasts_s=lasts_s,
        link_settings=written.to.for_model() if isinstance(written, LinkChange) else {},
        jump_s=written.by if isinstance(written, ClockJump) else 0.0,
        factor=written.factor if isinstance(written, Straggle) else 1.0,
    )


def written_event(event: Event) -> dict[str, Any]:
    """An event as a file has it; the inverse of :func:`event_of`."""
    targets: Any = event.targets
    if not isinstance(targets, str):
        names = [f" {_LINK_JOINT} ".join(target) for target in targets]
        targets = names[0] if len(names) == 1 else names
    written: dict[str, Any] = {"kind": event.kind}
    written["link" if event.kind in ("link-down", "link-change") else "node"] = targets
    times = {"at": event.at_s or None, "every": event.every_s, "until": event.until_s}
    times |= {"for": event.lasts_s, "by": event.jump_s or None}
    written |= {k: format_duration(v) for k, v in times.items() if v is not None}
    if event.rate_per_s is not None:
        written["rate"] = event.rate_per_s
    if event.kind == "link-change":
        written["to"] = written_link_settings(event.link_settings)
    if event.kind == "straggle":
        written["factor"] = event.factor
    return written
