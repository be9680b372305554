"""The workload file: its keys, their types and their meaning. The JSON schema is made from this."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from innet.lab.simulation.workload.background import BackgroundSpecification
from innet.lab.simulation.workload.compute import ComputeSpecification
from innet.lab.simulation.workload.job import JobFields
from innet.lab.simulation.workload.kv import KvSpecification
from innet.quantities import Quantity, QuantityError, parse_size_bytes
from innet.topology.document import SCHEMA_DIALECT
from innet.topology.event_document import Duration, EventSpecification, PositiveDuration
from innet.topology.names import NAME_EXPECTED, Name
from innet.topology.specification import Specification, optional

CollectiveName = Literal[
    "allreduce",
    "reduce",
    "reduce-scatter",
    "allgather",
    "broadcast",
    "gather",
    "scatter",
    "alltoall",
    "barrier",
]
COLLECTIVES: tuple[str, ...] = get_args(CollectiveName)

_ELEMENT_BYTES = 4


def _size(value: Quantity) -> int:
    size_bytes = parse_size_bytes(value)
    if size_bytes <= 0 or size_bytes % _ELEMENT_BYTES:
        raise QuantityError("a size in multiples of 4 bytes, such as 16MiB", value)
    return size_bytes


Size = Annotated[
    int,
    BeforeValidator(_size),
    WithJsonSchema({"type": ["string", "number"], "examples": ["16MiB", 4096]}),
]


class CollectiveSpecification(JobFields):
    """The same collective again and again; all ranks begin each together."""

    kind: Literal["collective"]
    operation: CollectiveName = Field(description="which")
    size: Size = Field(default=_ELEMENT_BYTES, description="of each rank's contribution, float32")
    repetitions: int = Field(default=3, ge=1, le=1_000_000, description="timed operations")
    warm_up: int = Field(default=1, ge=0, le=1000, description="operations before, not timed")
    pause: Duration = Field(default=0.0, description="between the end of one and the next")
    root: int = Field(default=0, ge=0, description="the root's rank, where there is one")


class LayerSpecification(Specification):
    """A layer of a model."""

    name: str = Field(default="", description="for people")
    forward: Duration = Field(default=0.0, description="computing in the forward pass")
    backward: Duration = Field(default=0.0, description="computing in the backward pass")
    gradient: Annotated[
        int,
        BeforeValidator(parse_size_bytes),
        WithJsonSchema({"type": ["string", "number"], "examples": ["4MiB", 0]}),
    ] = Field(default=0, description="bytes of its gradients, float32")


class TrainingSpecification(JobFields):
    """Data-parallel training: forward, backward, and the sums of the gradients in buckets."""

    kind: Literal["training"]
    layers: list[LayerSpecification] = optional("in the order of the forward pass", min_length=1)
    layers_file: str = optional(
        "CSV with the header layer,forward_s,backward_s,gradient_bytes, beside this file"
    )
    repetitions: int = Field(
        default=3, ge=1, le=1_000_000, description="timed steps", alias="steps"
    )
    warm_up: int = Field(default=1, ge=0, le=1000, description="steps before, not timed")
    bucket: Size = Field(default=25 << 20, description="gradients summed together, as DDP does")
    first_bucket: Size = Field(
        default=1 << 20, description="the first bucket to be ready is this small, as DDP's"
    )
    overlap: bool = Field(
        default=True, description="sums run during backward; otherwise after all of it"
    )
    update: Duration = Field(default=0.0, description="the optimiser, at the end of a step")
    compute: ComputeSpecification = ComputeSpecification()

    @model_validator(mode="after")
    def _layers_once(self) -> TrainingSpecification:
        if ("layers" in self.model_fields_set) == ("layers_file" in self.model_fields_set):
            raise ValueError("expected either 'layers' or 'layers-file'")
        return self


class AstraSimSpecification(JobFields):
    """A training loop from a text workload of ASTRA-sim."""

    kind: Literal["astra-sim"]
    file: str = Field(description="the text workload, beside this file")
    repetitions: int = Field(
        default=1, ge=1, le=1_000_000, description="timed passes of the loop", alias="steps"
    )
    warm_up: int = Field(default=0, ge=0, le=1000, description="passes before, not timed")
    cycle: PositiveDuration = Field(default=1e-9, description="what the file's cycles are")
    model_parallel: int = optional(
        "ranks of a model-parallel group, where the file is hybrid and does not say", ge=1
    )
    compute: ComputeSpecification = ComputeSpecification()


JobSpecification = Annotated[
    CollectiveSpecification | TrainingSpecification | AstraSimSpecification | KvSpecification,
    Field(discriminator="kind"),
]


class WorkloadDocument(Specification):
    """What runs on a simulated network, and what happens to it meanwhile."""

    name: Name = Field(description=NAME_EXPECTED)
    jobs: dict[Name, JobSpecification] = Field(
        min_length=1, description="groups of ranks at work, by name; all at once"
    )
    background: list[BackgroundSpecification] = Field(
        default_factory=list, description="traffic of others meanwhile"
    )
    events: list[EventSpecification] = Field(
        default_factory=list, description="what happens to nodes and links"
    )


def json_schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of a workload file."""
    schema = WorkloadDocument.model_json_schema()
    return {"$schema": SCHEMA_DIALECT, **schema, "title": "innet workload"}
