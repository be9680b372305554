"""The topology file: its keys, their types and their meaning. The JSON schema is made from this."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from innet.errors import TopologyError
from innet.quantities import shown
from innet.topology import model
from innet.topology.event_document import EventSpecification
from innet.topology.generators import Generator
from innet.topology.names import NAME_EXPECTED, Name
from innet.topology.settings import HostSettings, LinkSettings, SwitchSettings
from innet.topology.specification import Specification, optional


def _endpoint(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError(f'expected "node:port", such as "h0:eth0", found {shown(value)}')
    try:
        return model.Interface.parse(value)
    except TopologyError as error:
        raise ValueError(str(error)) from None


Endpoint = Annotated[
    model.Interface,
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
    """A machine that runs one worker."""

    kind: Literal["host"]
    rank: int = optional(
        "rank in the job, given to every host or to none; by default hosts are "
        "numbered in the natural order of their names",
        ge=0,
    )


class SwitchSpecification(SwitchSettings):
    """A node that forwards, aggregates and caches."""

    kind: Literal["switch"]


class LinkSpecification(LinkSettings):
    """A full-duplex link between two ports."""

    endpoints: list[Endpoint] = Field(
        min_length=2, max_length=2, description='the two ends, as ["h0:eth0", "s0:eth0"]'
    )


NodeSpecification = Annotated[HostSpecification | SwitchSpecification, Field(discriminator="kind")]


class Defaults(Specification):
    """Settings of everything of a kind that does not say otherwise."""

    host: HostSettings = HostSettings()
    switch: SwitchSettings = SwitchSettings()
    link: LinkSettings = LinkSettings()


class TopologySection(Specification):
    """Nodes and links, written out or generated."""

    defaults: Defaults = Field(default=Defaults(), description="settings by kind")
    nodes: dict[Name, NodeSpecification] = optional("nodes by name")
    links: list[LinkSpecification] = optional("links between ports")
    generate: Generator = optional("a regular network, instead of nodes")

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

    name: Name = Field(description=NAME_EXPECTED)
    topology: TopologySection
    events: list[EventSpecification] = Field(
        default_factory=list, description="what happens to nodes and links in a simulation"
    )


class _SchemaGenerator(GenerateJsonSchema):
    """Leaves out defaults that only stand for a key that was not written."""

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        if schema.get("default") is None or isinstance(schema["default"], Specification):
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)


SCHEMA_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of a topology file, for editors and other tools."""
    schema = TopologyDocument.model_json_schema(schema_generator=_SchemaGenerator)
    return {"$schema": SCHEMA_DIALECT, **schema, "title": "innet topology"}
