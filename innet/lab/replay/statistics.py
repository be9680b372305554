"""What a replay counts."""

from __future__ import annotations

from dataclasses import dataclass, fields

from innet.kv.pool import Place

_HERE = frozenset({Place.LOCAL_MEMORY, Place.LOCAL_DISK, Place.HOME_MEMORY, Place.HOME_DISK})


@dataclass
class ReplayStatistics:
    """Fills while a replay runs.

    Attributes:
        local: blocks found in the memory of the host that asked.
        fetched: blocks that came over the network.
        own_home: of these, blocks whose home the host itself was, and that it got from where they
            were put.
        missed: blocks that were computed.
        late: fetches that met their deadline; the blocks count as missed.
        puts: blocks that came to a home.
        lost_puts: blocks that did not.
        wrong: blocks whose contents were another's.
    """

    local: int = 0
    fetched: int = 0
    own_home: int = 0
    missed: int = 0
    late: int = 0
    puts: int = 0
    lost_puts: int = 0
    wrong: int = 0

    def add(self, other: ReplayStatistics) -> None:
        """Count what another worker has counted."""
        for counter in fields(self):
            total = getattr(self, counter.name) + getattr(other, counter.name)
            setattr(self, counter.name, total)

    def count(self, place: Place) -> None:
        """A block of a prefix was found."""
        if place in _HERE:
            self.local += 1
        else:
            self.fetched += 1
            self.own_home += place is Place.PRODUCER
