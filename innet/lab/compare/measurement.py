"""The result of a comparison and the machine it was measured on, and their JSON form."""

from __future__ import annotations

import os
import platform
import statistics
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Self

import numpy as np
import psutil
from pydantic import BaseModel, ConfigDict, Field, ValidationError, computed_field

from innet import __version__
from innet.errors import InnetError
from innet.machine import processor_name
from innet.node.node_config import Mode
from innet.output_files import write_output

_BUSY_LOAD_PER_CORE = 0.5


class Machine(BaseModel):
    """The machine of a measurement, and its software versions."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    date: str = Field(description="UTC, ISO 8601")
    processor: str
    cores: int = Field(description="that this process may use")
    memory_bytes: int
    kernel: str
    python: str
    numpy: str
    innet: str
    load: float = Field(description="processes that wanted to run, mean of the minute before")

    @classmethod
    def here(cls) -> Self:
        """This machine, now."""
        return cls(
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            processor=processor_name(),
            cores=len(os.sched_getaffinity(0)),
            memory_bytes=psutil.virtual_memory().total,
            kernel=f"{platform.system()} {platform.release()}",
            python=platform.python_version(),
            numpy=np.__version__,
            innet=__version__,
            load=round(os.getloadavg()[0], 2),
        )

    @property
    def is_busy(self) -> bool:
        """Whether other work used the processors just before, so that times can be too long."""
        return self.load > _BUSY_LOAD_PER_CORE * self.cores

    def __str__(self) -> str:
        return (
            f"{self.cores} cores of {self.processor}, {self.memory_bytes / 2**30:.0f} GiB, "
            f"{self.kernel}, Python {self.python}"
        )


# Read back, computed fields are computed again: "ignore" lets a saved file carry them.
_MODEL = ConfigDict(extra="ignore", frozen=True)

OVERLOADED_BOUNDS = 3
"""Times its bound from which a figure at the largest size shows an overload."""


class LinkTraffic(BaseModel):
    """The traffic of one direction of a link during the timed turns."""

    model_config = _MODEL

    source: str
    destination: str
    rate_bps: float | None
    bytes_per_operation: float
    drops: int = Field(description="packets that found the queue full, over all timed turns")

    @property
    def time_s(self) -> float:
        """Least time on the wire of an operation's bytes; 0 where no rate limits them."""
        return 0.0 if self.rate_bps is None else self.bytes_per_operation * 8 / self.rate_bps

    def __str__(self) -> str:
        return f"{self.source} → {self.destination}"


class QueueSeries(BaseModel):
    """The queue of one direction of a link during the first allreduce, which is not timed."""

    model_config = _MODEL

    source: str
    destination: str
    time_s: list[float] = Field(description="since the common start")
    depth_bytes: list[int]
    drops: list[int] = Field(description="packets dropped since the start")


class SimulatedEvent(BaseModel):
    """An event of a simulated network, in words."""

    model_config = _MODEL

    time_s: float = Field(description="virtual time")
    text: str


class SimulatedRun(BaseModel):
    """The part of a measurement that only a simulation has."""

    model_config = _MODEL

    seeds: list[int]
    spans_s: list[tuple[float, float]] = Field(
        description="beginning and end of each operation with the first seed, in virtual time"
    )
    slots_in_use_max: int = Field(description="the most at once on one switch")
    events: list[SimulatedEvent] = Field(description="with the first seed")
    virtual_s: float = Field(description="how long all runs took, in virtual time")
    wall_s: float = Field(description="and in real time")
    packets: int = Field(description="that arrived at a node")
    virtual_scale: int = Field(
        default=1, description="bytes that each byte of an array stood for; 1: payloads were real"
    )
    background_bytes: int = Field(
        default=0, description="offered by traffic of others, over all runs"
    )


class BlockPlaces(BaseModel):
    """Where the key-value blocks of a replay's requests were found.

    A block counts where its beginning was found. ``switches`` includes blocks that arrived with the
    answer to another host's concurrent request.
    """

    model_config = _MODEL

    local: int = Field(description="in the memory of the requesting host")
    switches: int = Field(description="on the path")
    by_switch: dict[str, float] = Field(
        description="of these, in proportion to the answers of the content stores"
    )
    homes: int = Field(description="at their homes")
    computed: int = Field(description="nowhere")
    late: int = Field(description="of these, blocks whose request missed its deadline")
    puts: int = Field(description="blocks that homes received")
    lost_puts: int = Field(description="blocks that homes did not receive")
    one_store_rate: float | None = Field(
        default=None, description="hit rate of one store with all memory, one request at a time"
    )
    belady_rate: float | None = Field(
        default=None, description="hit rate of that store if it knew all requests in advance"
    )
    ideal_rate: float | None = Field(
        default=None, description="hit rate of one store with memory for all blocks"
    )

    @classmethod
    def total(cls, seeds: Sequence[BlockPlaces]) -> BlockPlaces:
        """The sum over the runs with several seeds; the reference rates are the same in all."""
        counts = ("local", "switches", "homes", "computed", "late", "puts", "lost_puts")
        by_switch: dict[str, float] = defaultdict(float)
        for places in seeds:
            for switch, blocks in places.by_switch.items():
                by_switch[switch] += blocks
        sums = {name: sum(getattr(places, name) for places in seeds) for name in counts}
        return seeds[0].model_copy(update={**sums, "by_switch": dict(by_switch)})

    @computed_field  # type: ignore[prop-decorator]
    @property
    def asked(self) -> int:
        """Blocks of all requests."""
        return self.local + self.switches + self.homes + self.computed

    @computed_field  # type: ignore[prop-decorator]
    @property
    def hit_rate(self) -> float:
        """Blocks that were not computed, of all."""
        return 1 - self.computed / self.asked if self.asked else 0.0


_FEW_SAMPLES = 10
"""With fewer samples, a tenth at either end is less than one sample."""


class Measurement(BaseModel):
    """One method at one size. Times are those of the slowest rank."""

    model_config = _MODEL

    method: str
    title: str
    size_bytes: int = Field(description="M, of each rank's tensor")
    samples_s: list[float] = Field(min_length=1)
    in_a_row: bool = Field(description="operations followed each other without a pause")
    correct: bool = Field(description="whether every element on every rank was right, every time")
    bound_s: float | None = Field(description="None where no link has a rate")
    completion_bound_s: float | None = Field(
        default=None,
        description="bound with latency; only of allreduces of innet that took 1.25 bounds or more",
    )
    links: list[LinkTraffic]
    deepest_queue: QueueSeries | None = Field(description="None where nothing ever waited")
    retransmissions: int = Field(description="over all timed turns: Interests, or TCP segments")
    packets: float = Field(
        default=0.0, description="per operation, sent by innet's nodes; one may span datagrams"
    )
    calls: float = Field(
        default=0.0, description="per operation: system calls of innet's nodes for packets"
    )
    cpu_s: float = Field(
        description="processor time per operation, all workers and switches; 0 in simulations"
    )
    machine_cpu_s: float | None = Field(
        default=None,
        description="processor time per operation of the whole machine, kernel and interrupts "
        "included; None in simulations",
    )
    job: str = Field(default="", description="whose operations, where several jobs ran at once")
    simulated: SimulatedRun | None = Field(default=None, description="of simulations only")
    blocks: BlockPlaces | None = Field(default=None, description="of replays of requests only")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def median_s(self) -> float:
        """The median time."""
        return statistics.median(self.samples_s)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def p10_s(self) -> float:
        """A tenth of the samples was at least this fast."""
        return percentile(self.samples_s, 0.1)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def p90_s(self) -> float:
        """A tenth of the samples was at least this slow."""
        return percentile(self.samples_s, 0.9)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def p95_s(self) -> float:
        """One sample in twenty was at least this slow."""
        return percentile(self.samples_s, 0.95)

    @property
    def spread_s(self) -> float:
        """The range of the samples; with ten or more, without a tenth at either end."""
        if len(self.samples_s) < _FEW_SAMPLES:
            return max(self.samples_s) - min(self.samples_s)
        return self.p90_s - self.p10_s

    def differs_from(self, other: Measurement) -> bool:
        """Whether the medians differ by more than either spread."""
        difference_s = abs(self.median_s - other.median_s)
        return difference_s > max(self.spread_s, other.spread_s)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def bandwidth_bytes_per_s(self) -> float:
        """Algorithm bandwidth: size by median time."""
        return self.size_bytes / self.median_s

    @property
    def least_s(self) -> float | None:
        """The bound with latency where it is known, otherwise the bytes' bound."""
        return self.bound_s if self.completion_bound_s is None else self.completion_bound_s

    @computed_field  # type: ignore[prop-decorator]
    @property
    def ratio_to_bound(self) -> float | None:
        """Median by :attr:`least_s`; the closer to 1 the better.

        ``None`` without a bound, and for operations in a row, which overlap: the bound of one
        operation does not apply to them.
        """
        return None if self.least_s is None or self.in_a_row else self.median_s / self.least_s

    @computed_field  # type: ignore[prop-decorator]
    @property
    def drops(self) -> int:
        """Packets that found a queue full, over all timed turns and links."""
        return sum(link.drops for link in self.links)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def deepest_queue_bytes(self) -> int:
        """The largest depth of any queue."""
        return 0 if self.deepest_queue is None else max(self.deepest_queue.depth_bytes)

    @property
    def busiest_link(self) -> LinkTraffic | None:
        """The link whose bytes take longest; without rates, the one with the most bytes."""
        if not self.links:
            return None
        return max(self.links, key=lambda link: (link.time_s, link.bytes_per_operation))


class Failure(BaseModel):
    """A method that failed at a size; the comparison left it out from there on."""

    model_config = _MODEL

    method: str
    size_bytes: int | None = Field(description="None when it could not even start")
    reason: str


class Comparison(BaseModel):
    """The measurements of several methods on one topology.

    Example::

        comparison = Comparison.load(Path("comparison.json"))
        print(comparison.measurement("inc", 1 << 24).median_s)
    """

    model_config = _MODEL

    topology: str
    hosts: int
    switches: int
    links: str = Field(description="the links in words, such as '8 links of 200 Mbit/s'")
    mode: Mode | Literal["sim"]
    operation: str = Field(default="allreduce", description="whose time was taken")
    workload: str = Field(default="allreduce", description="what ran")
    interrupted: bool = Field(default=False, description="ended before everything was measured")
    signature: str = Field(description="how innet signed each segment")
    machine: Machine
    versions: dict[str, str] = Field(description="what was compared, by contender")
    measurements: list[Measurement]
    failures: list[Failure]

    def measurement(self, method: str, size_bytes: int) -> Measurement | None:
        """The measurement of a method at a size, if there is one."""
        for measurement in self.measurements:
            if (measurement.method, measurement.size_bytes) == (method, size_bytes):
                return measurement
        return None

    def at_size(self, size_bytes: int) -> list[Measurement]:
        """The measurements at a size, in the order of the methods."""
        found = (self.measurement(method, size_bytes) for method in self.methods)
        return [measurement for measurement in found if measurement is not None]

    def of_method(self, method: str) -> list[Measurement]:
        """A method's measurements, in ascending order of size."""
        found = [m for m in self.measurements if m.method == method]
        return sorted(found, key=lambda m: m.size_bytes)

    @property
    def is_replay(self) -> bool:
        """Whether all measurements are replays of requests to language models."""
        return bool(self.measurements) and all(m.blocks for m in self.measurements)

    @property
    def methods(self) -> list[str]:
        """The measured methods, in the order in which they first appear."""
        return list(dict.fromkeys(m.method for m in self.measurements))

    @property
    def largest(self) -> list[Measurement]:
        """All methods at the largest size of their job."""
        most: dict[str, int] = {}
        for m in self.measurements:
            most[m.job] = max(most.get(m.job, 0), m.size_bytes)
        return [m for m in self.measurements if m.size_bytes == most[m.job]]

    @property
    def sizes_bytes(self) -> list[int]:
        """The measured sizes, in ascending order."""
        return sorted({m.size_bytes for m in self.measurements})

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_output(path, self.model_dump_json(indent=2) + "\n")

    @classmethod
    def load(cls, path: Path) -> Comparison:
        """Read what :meth:`save` wrote."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except OSError as error:
            raise InnetError(f"cannot read the comparison {path}: {error.strerror}") from error
        except ValidationError as error:
            first = error.errors()[0]
            raise InnetError(
                f"{path} is not a comparison of this version of innet: "
                f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}. "
                "Compare again."
            ) from error


def percentile(samples: list[float], fraction: float) -> float:
    """The value below which ``fraction`` of the samples are, interpolated linearly.

    >>> percentile([4.0, 1.0, 2.0, 3.0, 5.0], 0.1)
    1.4
    """
    ordered = sorted(samples)
    position = fraction * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])
