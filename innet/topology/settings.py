"""Settings of hosts, switches and links in a file, as quantities with units.

Nothing here has a default of its own: a setting that is not written keeps that of the model
(:mod:`innet.topology.parts`), which the schema quotes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, WithJsonSchema

from innet.quantities import (
    Quantity,
    QuantityError,
    format_duration,
    format_probability,
    format_rate,
    format_size,
    parse_duration_s,
    parse_probability,
    parse_rate_bps,
    parse_size_bytes,
)
from innet.topology import parts
from innet.topology.specification import Specification, optional

UNLIMITED: Final = "unlimited"

_MODEL_FIELDS: Final = {
    "cache": "cache_bytes",
    "memory_rate": "memory_rate_bps",
    "rate": "rate_bps",
    "delay": "delay_s",
    "queue": "queue_bytes",
    "mtu": "mtu_bytes",
    "mark": "mark_bytes",
    "jitter": "jitter_s",
    "reorder_delay": "reorder_delay_s",
}


def _rate(value: Quantity) -> float | None:
    if value == UNLIMITED:
        return None
    rate_bps = parse_rate_bps(value)
    if not parts.MIN_RATE_BPS <= rate_bps <= parts.MAX_RATE_BPS:
        low, high = map(format_rate, (parts.MIN_RATE_BPS, parts.MAX_RATE_BPS))
        raise QuantityError(f"a rate from {low} to {high}, or {UNLIMITED}", value)
    return rate_bps


def _delay(maximum_s: float) -> Callable[[Quantity], float]:
    def parse(value: Quantity) -> float:
        delay_s = parse_duration_s(value)
        if delay_s > maximum_s:
            limit = format_duration(maximum_s)
            raise QuantityError(f"a delay of at most {limit}", value)
        return delay_s

    return parse


def _share(what: str) -> Callable[[Quantity], float]:
    """A parser of a share of packets below the maximum loss."""

    def parse(value: Quantity) -> float:
        share = parse_probability(value)
        if share > parts.MAX_LOSS:
            limit = format_probability(parts.MAX_LOSS)
            raise QuantityError(
                f"{what} of at most {limit} (write one percent as 1% or 0.01)", value
            )
        return share

    return parse


def _size(minimum_bytes: int, maximum_bytes: int) -> Callable[[Quantity], int]:
    def parse(value: Quantity) -> int:
        size_bytes = parse_size_bytes(value)
        if not minimum_bytes <= size_bytes <= maximum_bytes:
            low, high = map(format_size, (minimum_bytes, maximum_bytes))
            raise QuantityError(f"a size from {low} to {high}", value)
        return size_bytes

    return parse


def _schema(*examples: str | int) -> WithJsonSchema:
    return WithJsonSchema({"type": ["string", "number"], "examples": list(examples)})


def _subnet(value: object) -> str:
    try:
        return parts.subnet_text(str(value))
    except ValueError:
        raise QuantityError("an IP network, such as 10.1.0.0/16", str(value)) from None


Subnet = Annotated[
    str, BeforeValidator(_subnet), WithJsonSchema({"type": "string", "examples": ["10.1.0.0/16"]})
]
Rate = Annotated[
    float | None,
    BeforeValidator(_rate),
    WithJsonSchema({"type": "string", "examples": ["200mbit", "1gbit", UNLIMITED]}),
]
Delay = Annotated[float, BeforeValidator(_delay(parts.MAX_DELAY_S)), _schema("1ms", "250us", 0)]
HoldUp = Annotated[float, BeforeValidator(_delay(parts.MAX_HOLD_UP_S)), _schema("1ms", "250us", 0)]
LossProbability = Annotated[float, BeforeValidator(_share("a loss")), _schema("1%", 0.01)]
CorruptProbability = Annotated[
    float, BeforeValidator(_share("a corrupted share")), _schema("0.1%", 0.001)
]
Probability = Annotated[float, BeforeValidator(parse_probability), _schema("1%", 0.01)]
Cache = Annotated[int, BeforeValidator(_size(0, parts.MAX_BYTES)), _schema("64MiB", 0)]
Queue = Annotated[
    int, BeforeValidator(_size(parts.MIN_MTU_BYTES, parts.MAX_BYTES)), _schema("512KiB")
]
Mtu = Annotated[
    int,
    BeforeValidator(_size(parts.MIN_MTU_BYTES, parts.MAX_MTU_BYTES)),
    _schema(parts.Link.model_fields["mtu_bytes"].default),
]


def _setting(part: type[BaseModel], field: str, text: str, shown: Callable[..., str] = str) -> Any:
    """A key whose description quotes the default of the model's field."""
    default = part.model_fields[field].default
    return optional(f"{text}; by default {shown(default)}")


class _Settings(Specification):
    def for_model(self) -> dict[str, Any]:
        """The settings that were written, under the names of the model's fields."""
        return {_MODEL_FIELDS.get(name, name): value for name, value in self.given().items()}


class HostSettings(_Settings):
    """Settings of a host."""

    cache: Cache = _setting(
        parts.Host, "cache_bytes", "bytes of named data the host keeps", format_size
    )
    workers: parts.Workers = _setting(
        parts.Host,
        "workers",
        "ranks that the host runs; its node adds their contributions before they leave",
    )
    memory_rate: Rate = _setting(
        parts.Host,
        "memory_rate_bps",
        "bits per second between each worker and the host's memory, as over PCIe",
        lambda default: UNLIMITED,
    )


class SwitchSettings(_Settings):
    """Settings of a switch."""

    slots: parts.Slots = _setting(
        parts.Switch, "slots", "reductions in progress at once, 0 for a switch that only forwards"
    )
    cache: Cache = _setting(
        parts.Switch, "cache_bytes", "bytes of named data the switch keeps", format_size
    )
    cache_policy: parts.CachePolicy = _setting(
        parts.Switch, "cache_policy", "what leaves a full cache first"
    )


class LinkSettings(_Settings):
    """Settings of a link; each holds for both directions on their own."""

    rate: Rate = _setting(parts.Link, "rate_bps", "bits per second", lambda default: UNLIMITED)
    delay: Delay = _setting(parts.Link, "delay_s", "propagation delay", format_duration)
    loss: LossProbability = _setting(
        parts.Link, "loss", "probability that a packet is lost", format_probability
    )
    queue: Queue = _setting(parts.Link, "queue_bytes", "bytes that wait for the link", format_size)
    mtu: Mtu = _setting(parts.Link, "mtu_bytes", "largest packet in bytes")
    mark: Cache = _setting(
        parts.Link,
        "mark_bytes",
        "queue depth above which packets are marked",
        lambda default: "half of the queue",
    )
    jitter: Delay = _setting(
        parts.Link,
        "jitter_s",
        "a random delay up to this on top of the delay; order is kept",
        format_duration,
    )
    reorder: Probability = _setting(
        parts.Link,
        "reorder",
        "probability that a packet is held up for reorder-delay and may be overtaken",
        format_probability,
    )
    reorder_delay: HoldUp = _setting(
        parts.Link,
        "reorder_delay_s",
        "how long a reordered packet is held up",
        format_duration,
    )
    duplicate: Probability = _setting(
        parts.Link,
        "duplicate",
        "probability that a packet arrives twice",
        format_probability,
    )
    corrupt: CorruptProbability = _setting(
        parts.Link,
        "corrupt",
        "probability that one to three bits of a packet are flipped",
        format_probability,
    )


def written_link_settings(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a :class:`~innet.topology.parts.Link` as a file has them.

    >>> written_link_settings({"rate_bps": 1e7, "loss": 0.01})
    {'rate': '10mbit', 'loss': '1%'}
    """
    keys = {field: key.replace("_", "-") for key, field in _MODEL_FIELDS.items()}
    return {keys.get(field, field): _written(field, value) for field, value in fields.items()}


def _written(field: str, value: Any) -> str | int:
    if field == "subnet":
        return str(value)
    if field == "rate_bps":
        return UNLIMITED if value is None else format_rate(value)
    if field.endswith("_s"):
        return format_duration(value)
    if field == "mtu_bytes":
        return int(value)
    if field.endswith("_bytes"):
        return format_size(value)
    return format_probability(value)
