"""The base classes of all elements of the scapy layers.

An element has the fields ``type``, ``length`` and those of its value. Type and length are usually
``None``: the correct ones are computed. An element that was dissected in a longer form, or
truncated, keeps its original bytes, so that every packet can be built again bit for bit; a crafted
packet may state a wrong type or length. Dissection accepts any bytes, raises no error, and takes
linear time.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

from scapy.fields import Field, PacketListField, StrField, XStrField
from scapy.packet import Packet, Raw

from innet.observe.packets.names import name_value, uri_of
from innet.observe.packets.tlv import (
    NUMBER_SIZES,
    VarNumber,
    encoded_number,
    read_header,
)
from innet.tlv_numbers import TlvType

_MOST_ELEMENTS = 64
"""More of them in one element are left undissected: only a hostile packet has as many."""


class Undissected(Raw):
    """Bytes inside an element that cannot be read as elements."""

    name = "Undissected"


class _HeaderField(Field[Any, Any]):
    """The type or length of an element; ``None``: the correct one is computed."""

    def i2h(self, pkt: Any, value: Any) -> Any:
        if value is not None or pkt is None:
            return value
        return pkt.tlv_type if self.name == "type" else len(pkt.value_bytes())

    def i2repr(self, pkt: Any, value: Any) -> str:
        shown = self.i2h(pkt, value)
        return f"{shown:#x}" if self.name == "type" and shown is not None else str(shown)

    def any2i(self, pkt: Any, value: Any) -> Any:
        return value if value is None or isinstance(value, VarNumber) else VarNumber(value)


_HEADER = (_HeaderField("type", None), _HeaderField("length", None))


class NameField(StrField):
    """The value of a Name: bytes inside, a URI for people, and either to be set."""

    def any2i(self, pkt: Any, value: Any) -> Any:
        if isinstance(value, str):
            return name_value(value)
        return value

    def i2h(self, pkt: Any, value: Any) -> Any:
        return uri_of(value or b"")

    def i2repr(self, pkt: Any, value: Any) -> str:
        return str(self.i2h(pkt, value))


class NumberField(StrField):
    """A NonNegativeInteger: bytes inside, an int for people where they are one; set by either."""

    def any2i(self, pkt: Any, value: Any) -> Any:
        return encoded_number(value) if isinstance(value, int) else value

    def i2h(self, pkt: Any, value: Any) -> Any:
        return int.from_bytes(value, "big") if value and len(value) in NUMBER_SIZES else value

    def i2repr(self, pkt: Any, value: Any) -> str:
        shown = self.i2h(pkt, value)
        if not isinstance(shown, int):
            return f"{bytes(shown or b'').hex()} (no number)"
        meaning = pkt.meanings.get(shown)
        return str(shown) if meaning is None else f"{shown} ({meaning})"


def _class_for_bytes(cls: type[Packet], data: bytes | None = None, *_: Any, **__: Any) -> Any:
    """scapy's hook: the class that dissects ``data`` in place of this one."""
    return Undissected if data is not None and read_header(data) is None else cls


class Element(Packet):
    """One element. Its type is the constant of :class:`TlvType` that has the name of its class."""

    tlv_type: ClassVar[int] = 0
    fields_desc: ClassVar = [*_HEADER, XStrField("value", b"")]

    dispatch_hook: ClassVar[Any] = classmethod(_class_for_bytes)

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        constant = re.sub("(?<=[a-z])(?=[A-Z])", "_", cls.__name__).upper()
        cls.tlv_type = getattr(TlvType, constant, cls.tlv_type)
        cls.dispatch_hook = classmethod(_class_for_bytes)  # scapy looks for it in each class alone

    def value_bytes(self) -> bytes:
        """The bytes after the length."""
        return bytes(self.getfieldval("value") or b"")

    def read_value(self, value: bytes) -> None:
        """Set the fields from the bytes after the length."""
        self.fields["value"] = value

    def self_build(self, field_pos_list: Any = None) -> bytes:
        value = self.value_bytes()
        kind, length = self.fields.get("type"), self.fields.get("length")
        return (
            (VarNumber(self.tlv_type) if kind is None else kind).encoded()
            + (VarNumber(len(value)) if length is None else length).encoded()
            + value
        )

    def do_dissect(self, data: bytes) -> bytes:
        header = read_header(data)
        assert header is not None  # else it would be Undissected
        value = data[header.value_at : header.value_at + header.length]
        if header.type != self.tlv_type or not header.type.is_shortest:
            self.fields["type"] = header.type
        if header.length != len(value) or not header.length.is_shortest:
            self.fields["length"] = header.length
        self.read_value(bytes(value))
        return data[header.value_at + len(value) :]

    def extract_padding(self, data: bytes) -> tuple[bytes, bytes]:
        return data, b""

    def show_line(self) -> str:
        """Its line in a tree of elements."""
        return f"{self.name} {self.fields_desc[-1].i2repr(self, self.getfieldval('value'))}".strip()


class Unknown(Element):
    """An element whose type is unknown in its parent."""

    def show_line(self) -> str:
        return f"Unknown({self.type:#x}) {self.value_bytes().hex()}".strip()


class BytesElement(Element):
    """An element whose value is bytes."""

    def show_line(self) -> str:
        value = self.value_bytes()
        shown = value[:32].hex() + ("…" if len(value) > 32 else "")
        return f"{self.name} {shown} ({len(value)} bytes)" if value else f"{self.name} (empty)"


class FlagElement(Element):
    """An element without a value, whose presence is the information."""

    def show_line(self) -> str:
        value = self.value_bytes()
        return f"{self.name} {value.hex()}" if value else str(self.name)


class NumberElement(Element):
    """An element whose value is a NonNegativeInteger, or other bytes if it is malformed."""

    meanings: ClassVar[dict[int, str]] = {}
    fields_desc: ClassVar = [*_HEADER, NumberField("value", b"\0")]


class NameElement(Element):
    """An element whose value is the components of a name."""

    fields_desc: ClassVar = [*_HEADER, NameField("value", b"")]

    @property
    def uri(self) -> str:
        """The name as text."""
        return uri_of(self.value_bytes())

    def show_line(self) -> str:
        return f"{self.name} {self.uri}"


class NestedElement(Element):
    """An element whose value is elements."""

    children: ClassVar[dict[int, type[Element]]] = {}
    fields_desc: ClassVar = [
        *_HEADER,
        PacketListField("elements", [], Element),
    ]

    def value_bytes(self) -> bytes:
        return b"".join(bytes(element) for element in self.getfieldval("elements") or ())

    def read_value(self, value: bytes) -> None:
        self.fields["elements"] = read_elements(value, self.children, self)

    def element(self, kind: type[Element]) -> Any:
        """The first element of that class, or ``None``."""
        return next((e for e in self.getfieldval("elements") or () if type(e) is kind), None)

    def show_line(self) -> str:
        return str(self.name)


def known(*classes: type[Element]) -> dict[int, type[Element]]:
    """The children of an element, by their types."""
    return {cls.tlv_type: cls for cls in classes}


def read_elements(
    value: bytes, children: dict[int, type[Element]], parent: Packet | None = None
) -> list[Packet]:
    """All elements in ``value``; what cannot be read is the last of them, :class:`Undissected`."""
    elements: list[Packet] = []
    at = 0
    while at < len(value):
        header = read_header(value, at)
        end = len(value) + 1 if header is None else header.value_at + header.length
        if header is None or end > len(value) or len(elements) == _MOST_ELEMENTS:
            elements.append(Undissected(value[at:], _parent=parent))
            break
        elements.append(children.get(header.type, Unknown)(value[at:end], _parent=parent))
        at = end
    return elements
