"""Filters packets by name and kind."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from innet.observe.packets.names import name_value
from innet.observe.packets.outline import KINDS, Outline


@dataclass(frozen=True)
class PacketChoice:
    """A filter of packets by their names and kinds; by default all pass.

    Attributes:
        prefixes: values of Name elements; a packet's name begins with one of them.
        kinds: of :data:`innet.observe.packets.outline.KINDS`.
    """

    prefixes: tuple[bytes, ...] = ()
    kinds: frozenset[str] = frozenset()

    @classmethod
    def of(cls, prefixes: Collection[str] = (), kinds: Collection[str] = ()) -> PacketChoice:
        """Parse prefixes and names of kinds.

        Raises:
            ValueError: a name is malformed, or a kind is unknown.
        """
        unknown = sorted(set(kinds).difference(KINDS))
        if unknown:
            raise ValueError(f"unknown kind {unknown[0]!r}; kinds are {', '.join(KINDS)}")
        return cls(tuple(map(name_value, prefixes)), frozenset(kinds))

    @property
    def is_everything(self) -> bool:
        """Whether all packets pass."""
        return not (self.prefixes or self.kinds)

    def wants(self, outline: Outline) -> bool:
        """Whether the packet passes."""
        return (not self.kinds or outline.kind in self.kinds) and (
            # Elements delimit themselves, so a prefix in bytes ends where a component ends.
            not self.prefixes or any(outline.name.startswith(prefix) for prefix in self.prefixes)
        )
