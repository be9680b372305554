"""The topology file and its events: keys, types, meaning. The JSON schema is made from this."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from innet.errors import TopologyError
from innet.quantities import Quantity, QuantityError, format_duration, parse_duration_s, shown
from innet.topology import parts
from innet.topology.events import Anything, Target, TopologyEvent
from innet.topology.from_ray import FromRay
from innet.topology.generators import Generator
from innet.topology.names import NAME_EXPECTED, MachineChoice, NodeName
from innet.topology.settings import (
    HostSettings,
    LinkSettings,
    Subnet,
    SwitchSettings,
    written_link_settings,
)
from innet.topology.specification import Specification, optional


def _endpoint(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError(f'expected "node:port", such as "h0:eth0", found {shown(value)}')
    try:
        return parts.Interface.parse(value)
    except TopologyError as error:
        raise ValueError(str(error)) from None


Endpoint = Annotated[
    parts.Interface,
    BeforeValidator(_endpoint),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,31}:[A-Za-z0-9_][A-Za-z0-9._-]{0,14}$",
            "examples": ["h0:eth0"],
        }
    ),
]


class HostSpecification(HostSettings):
    """A machine that runs one worker, or several."""

    kind: Literal["host"]
    rank: int = optional(
        "rank in the job, given to every host or to none; by default hosts are "
        "numbered in the natural order of their names",
        ge=0,
    )
    machine: MachineChoice = optional(
        "machine that the host is on in cluster mode, or labels of one, such as {rack: a}; by "
        "default one of the host's name"
    )


class SwitchSpecification(SwitchSettings):
    """A node that forwards, aggregates and caches."""

    kind: Literal["switch"]
    machine: MachineChoice = optional(
        "machine that the switch is on in cluster mode, or labels of one of the switch's name; by "
        "default the launcher's"
    )


class LinkSpecification(LinkSettings):
    """A full-duplex link between two ports."""

    endpoints: list[Endpoint] = Field(
        min_length=2, max_length=2, description='the two ends, as ["h0:eth0", "s0:eth0"]'
    )
    subnet: Subnet = optional(
        "network of the addresses that both ends use in cluster mode; by default those at which "
        "the machines have joined"
    )


NodeSpecification = Annotated[HostSpecification | SwitchSpecification, Field(discriminator="kind")]


class Defaults(Specification):
    """Default settings of hosts, switches and links."""

    host: HostSettings = HostSettings()
    switch: SwitchSettings = SwitchSettings()
    link: LinkSettings = LinkSettings()


class TopologySection(Specification):
    """Nodes and links, written out or generated."""

    defaults: Defaults = Field(default=Defaults(), description="settings by kind")
    nodes: dict[NodeName, NodeSpecification] = optional("nodes by name")
    links: list[LinkSpecification] = optional("links between ports")
    generate: Annotated[Generator | FromRay, Field(discriminator="kind")] = optional(
        "a regular network or that of a cluster, instead of nodes"
    )

    @model_validator(mode="after")
    def _written_or_generated(self) -> TopologySection:
        if "generate" in self.model_fields_set:
            if self.model_fields_set & {"nodes", "links"}:
                raise ValueError("expected either 'generate' or 'nodes' with 'links', found both")
        elif "nodes" not in self.model_fields_set:
            raise ValueError("expected 'nodes' with 'links', or 'generate', found neither")
        return self


class TopologyDocument(Specification):
    """A network for innet: hosts, switches, and the links between their ports."""

    name: NodeName = Field(description=NAME_EXPECTED)
    topology: TopologySection
    events: list[EventSpecification] = Field(
        default_factory=list, description="events of nodes and links in a simulation"
    )


class _SchemaGenerator(GenerateJsonSchema):
    """Omits defaults that only mark an unwritten key."""

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        if schema.get("default") is None or isinstance(schema["default"], Specification):
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)


SCHEMA_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of a topology file, for editors and other tools."""
    schema = TopologyDocument.model_json_schema(schema_generator=_SchemaGenerator)
    return {"$schema": SCHEMA_DIALECT, **schema, "title": "innet topology"}


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
    """When an event happens: once, every period, or at random with a mean rate per second."""

    at: Duration = Field(
        default=0.0, description="virtual time of the first event; random events begin then"
    )
    every: PositiveDuration = optional("period of further events")
    rate: float = optional("mean rate per second of random events", gt=0, le=1e6)
    until: Duration = optional("no event begins from this time on")

    @model_validator(mode="after")
    def _one_rhythm(self) -> _EventSpecification:
        if {"every", "rate"} <= self.model_fields_set:
            raise ValueError("expected 'every' or 'rate', found both")
        return self


def _lasting(text: str) -> Any:
    return optional(f"{text}; by default without end", alias="for")


class LinkDown(_EventSpecification):
    """A link loses all packets, in both directions."""

    kind: Literal["link-down"]
    link: Links = Field(description="which; of several, one is drawn each time")
    lasts: PositiveDuration = _lasting("time after which it is up again")


class LinkChange(_EventSpecification):
    """Properties of a link change, in both directions."""

    kind: Literal["link-change"]
    link: Links = Field(description="which; of several, one is drawn each time")
    to: LinkSettings = Field(description="its new properties; the others do not change")
    lasts: PositiveDuration = _lasting("time after which it has the topology's properties again")


class Crash(_EventSpecification):
    """A node loses its state."""

    kind: Literal["crash"]
    node: Nodes = Field(description="which; of several, one is drawn each time")
    lasts: PositiveDuration = _lasting("time after which it restarts, empty")


class Pause(_EventSpecification):
    """A node and the computing on it pause; its receive buffers hold what arrives."""

    kind: Literal["pause"]
    node: Nodes = Field(description="which; of several, one is drawn each time")
    lasts: PositiveDuration = _lasting("time after which it resumes")


class ClockJump(_EventSpecification):
    """A node's clock advances by a step."""

    kind: Literal["clock-jump"]
    node: Nodes = Field(description="which; of several, one is drawn each time")
    by: PositiveDuration = Field(description="seconds by which it advances")


class Straggle(_EventSpecification):
    """Computing on a host takes longer."""

    kind: Literal["straggle"]
    node: Nodes = Field(description="which host; of several, one is drawn each time")
    factor: float = Field(gt=0, le=1e6, description="factor of the computing time")
    lasts: PositiveDuration = _lasting("time after which it is as fast as before")


EventSpecification = Annotated[
    LinkDown | LinkChange | Crash | Pause | ClockJump | Straggle, Field(discriminator="kind")
]


def event_of(written: EventSpecification) -> TopologyEvent:
    """The event that a specification describes."""
    lasts_s = None if isinstance(written, ClockJump) else written.lasts
    return TopologyEvent(
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


def written_event(event: TopologyEvent) -> dict[str, Any]:
    """The event as it is written in a file; the inverse of :func:`event_of`."""
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
