"""Management commands of NFD's protocol: their parameters and their answers.

Source: NFD Management protocol, "ControlCommand" and "PrefixAnnouncement".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from innet._native import _core
from innet.errors import MalformedPacket
from innet.names import (
    Name,
    as_name,
    new_version,
    with_component,
    with_keyword,
    with_segment,
    with_version,
)
from innet.ndn import wire
from innet.security.signers import Signer
from innet.tlv_numbers import ContentType, TlvType

LOCAL_MANAGEMENT = "/localhost/nfd"
ORIGIN_APP = 0
"""Origin of a route that an application registered."""
ORIGIN_ANNOUNCEMENT = 129
"""Origin of a route from a prefix announcement."""
CHILD_INHERIT = 1
"""Flag of a route: it serves longer prefixes as well."""
OK = 200

_CONTROL_RESPONSE = 0x65
_STATUS_CODE = 0x66
_STATUS_TEXT = 0x67
_CONTROL_PARAMETERS = 0x68
_FACE_ID = 0x69
_COST = 0x6A
_STRATEGY = 0x6B
_FLAGS = 0x6C
_MASK = 0x70
_MARKING_INTERVAL = 0x87
_MARKING_THRESHOLD = 0x88
_NS_PER_S = 10**9
_EXPIRATION = 0x6D
_ORIGIN = 0x6F
_URI = 0x72
_ANNOUNCEMENT_KEYWORD = b"PA"


@dataclass(frozen=True)
class ControlParameters:
    """The parameters of a command or of its response; ``None``: the forwarder chooses.

    Names may be given as text, such as ``/video``.

    Attributes:
        name: a prefix.
        face_id: number of a face; of the requester by default.
        uri: of the other end of a face.
        origin: the creator of a route, by NFD's numbers.
        cost: of a route.
        flags: of a route or face.
        mask: which flags of a face count.
        marking_interval_s: how long a face's queue is above the threshold before Data are marked.
        marking_threshold_bytes: that threshold.
        strategy: name of a strategy.
        expiration_s: when a route ends by itself.
    """

    name: Name | None = None
    face_id: int | None = None
    uri: str | None = None
    origin: int | None = None
    cost: int | None = None
    flags: int | None = None
    mask: int | None = None
    marking_interval_s: float | None = None
    marking_threshold_bytes: int | None = None
    strategy: Name | None = None
    expiration_s: float | None = None

    def __post_init__(self) -> None:
        for field, given in vars(self).copy().items():
            if given is not None:
                object.__setattr__(self, field, _checked(field, given))

    def encode(self) -> bytes:
        """The ControlParameters element."""
        elements: list[bytes] = []
        if self.name is not None:
            elements.append(_core.encode_element(TlvType.NAME, self.name.value()))
        if self.face_id is not None:
            elements.append(_core.encode_number_element(_FACE_ID, self.face_id))
        if self.uri is not None:
            elements.append(_core.encode_element(_URI, self.uri.encode()))
        interval_s = self.marking_interval_s
        for kind, number in (
            (_ORIGIN, self.origin),
            (_COST, self.cost),
            (_MARKING_INTERVAL, None if interval_s is None else round(interval_s * _NS_PER_S)),
            (_MARKING_THRESHOLD, self.marking_threshold_bytes),
            (_FLAGS, self.flags),
            (_MASK, self.mask),
        ):
            if number is not None:
                elements.append(_core.encode_number_element(kind, number))
        if self.strategy is not None:
            name = _core.encode_element(TlvType.NAME, self.strategy.value())
            elements.append(_core.encode_element(_STRATEGY, name))
        if self.expiration_s is not None:
            elements.append(_core.encode_number_element(_EXPIRATION, _ms(self.expiration_s)))
        return _core.encode_element(_CONTROL_PARAMETERS, b"".join(elements))

    @classmethod
    def decode(cls, value: bytes) -> ControlParameters:
        """Read the value of a ControlParameters element.

        Raises:
            MalformedPacket: it is malformed.
        """
        return wire.parsed(cls._decode, value)

    @classmethod
    def _decode(cls, value: bytes) -> ControlParameters:
        found = dict(_core.read_elements(value))

        def number(kind: int) -> int | None:
            return _core.read_number(found[kind]) if kind in found else None

        interval_ns = number(_MARKING_INTERVAL)
        name, uri, expiration_ms = found.get(TlvType.NAME), found.get(_URI), number(_EXPIRATION)
        return cls(
            name=None if name is None else Name.from_value(name),
            face_id=number(_FACE_ID),
            uri=None if uri is None else uri.decode(),
            origin=number(_ORIGIN),
            cost=number(_COST),
            flags=number(_FLAGS),
            mask=number(_MASK),
            marking_interval_s=None if interval_ns is None else interval_ns / _NS_PER_S,
            marking_threshold_bytes=number(_MARKING_THRESHOLD),
            strategy=_strategy_name(found[_STRATEGY]) if _STRATEGY in found else None,
            expiration_s=None if expiration_ms is None else expiration_ms / 1000,
        )


def _checked(field: str, given: Any) -> Any:
    """The value of a field of :class:`ControlParameters`, of its type."""
    if field in ("name", "strategy"):
        if not isinstance(given, str | Name):
            raise TypeError(f"{field}={given!r}: expected a name, such as /video")
        return as_name(given)
    if field == "uri":
        if not isinstance(given, str):
            raise TypeError(f"uri={given!r}: expected a text, such as udp4://192.0.2.1:6363")
        return given
    is_time = field.endswith("_s")
    kinds = int | float if is_time else int
    if not isinstance(given, kinds) or isinstance(given, bool) or not given >= 0:
        expected = "seconds" if is_time else "a whole number"
        raise TypeError(f"{field}={given!r}: expected {expected}, 0 or more")
    return given


@dataclass(frozen=True)
class ControlResponse:
    """A forwarder's answer to a command.

    Attributes:
        code: 200 for success, else as HTTP's: 400, 403, 404, …
        text: the same in words.
        parameters: those that the forwarder applied, with its defaults; ``None`` if it states
            none.
    """

    code: int
    text: str
    parameters: ControlParameters | None = None

    @classmethod
    def decode(cls, content: bytes) -> ControlResponse:
        """Read the Content of an answer.

        Raises:
            MalformedPacket: it is no ControlResponse.
        """
        return wire.parsed(cls._decode, content)

    @classmethod
    def _decode(cls, content: bytes) -> ControlResponse:
        ((kind, value),) = _core.read_elements(content)
        found = dict(_core.read_elements(value))
        if kind != _CONTROL_RESPONSE or _STATUS_CODE not in found:
            raise ValueError("not a ControlResponse")
        body = found.get(_CONTROL_PARAMETERS)
        return cls(
            code=_core.read_number(found[_STATUS_CODE]),
            text=found.get(_STATUS_TEXT, b"").decode(errors="replace"),
            parameters=None if body is None else ControlParameters.decode(body),
        )


def command_name(module: str, verb: str, parameters: ControlParameters) -> Name:
    """Name of a command, without the digest that signing it appends."""
    return with_component(f"{LOCAL_MANAGEMENT}/{module}/{verb}", parameters.encode())


def encode_prefix_announcement(
    prefix: Name | str, *, expiration_s: float, signer: Signer | None = None
) -> bytes:
    """A prefix announcement: Data in which a producer states what prefix it serves, and how long.

    Raises:
        ValueError: the prefix is malformed.
    """
    named = with_keyword(prefix, _ANNOUNCEMENT_KEYWORD)
    return wire.encode_data(
        with_segment(with_version(named, new_version()), 0),
        _core.encode_number_element(_EXPIRATION, _ms(expiration_s)),
        content_type=ContentType.PREFIX_ANNOUNCEMENT,
        signer=signer,
    )


def _ms(duration_s: float) -> int:
    return round(duration_s * 1000)


def _strategy_name(value: bytes) -> Name:
    ((kind, name),) = _core.read_elements(value)
    if kind != TlvType.NAME:
        raise MalformedPacket("a strategy is given by its name")
    return Name.from_value(name)
