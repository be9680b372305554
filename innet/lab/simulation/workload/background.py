"""Traffic of others in workload files."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from innet.lab.simulation.background import Distribution
from innet.lab.simulation.workload.sizes import PositiveSize
from innet.quantities import Quantity, QuantityError, parse_rate_bps
from innet.topology.event_document import Duration, texts_of, texts_schema
from innet.topology.specification import Specification, optional

ANY_HOST = "any host"


def _hosts(value: Any) -> tuple[str, ...]:
    return tuple(texts_of(value, f'a host such as h0, a list of hosts, or "{ANY_HOST}"'))


def _rate(value: Quantity) -> float:
    rate_bps = parse_rate_bps(value)
    if rate_bps <= 0:
        raise QuantityError("a rate above 0, such as 300mbit", value)
    return rate_bps


Hosts = Annotated[tuple[str, ...], BeforeValidator(_hosts), texts_schema("h0", ANY_HOST)]


class BackgroundSpecification(Specification):
    """TCP flows that begin at random times and share the links with the jobs.

    Sizes of flows are, with ``size`` as their mean: ``constant``; ``exponential``; or ``pareto``
    with the shape 1.5, of which few are large and carry most.
    """

    source: Hosts = Field(alias="from", description="who sends; one is drawn for each flow")
    to: Hosts = Field(description="who receives; one is drawn for each flow")
    rate: Annotated[
        float,
        BeforeValidator(_rate),
        WithJsonSchema({"type": "string", "examples": ["300mbit"]}),
    ] = Field(description="offered in the mean, by all flows together")
    size: PositiveSize = Field(default=1 << 20, description="of a flow, in the mean")
    distribution: Distribution = Field(default="exponential", description="of sizes")
    congestion: Literal["cubic", "reno"] = Field(default="cubic", description="control, of TCP")
    at: Duration = Field(default=0.0, description="virtual time from which flows begin")
    until: Duration = optional("no flow begins from here on")
