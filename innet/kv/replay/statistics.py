"""What a replay counts."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class ReplayStatistics:
    """Fills while a replay runs.

    Attributes:
        local: blocks found in the memory of the host that asked.
        fetched: blocks that came over the network.
        missed: blocks that were computed.
        late: fetches that met their deadline; the blocks count as missed.
        puts: blocks that came to a home.
        lost_puts: blocks that did not.
        first_token_s: of each request, from its arrival to its first token.
    """

    local: int = 0
    fetched: int = 0
    missed: int = 0
    late: int = 0
    puts: int = 0
    lost_puts: int = 0
    first_token_s: list[float] = field(default_factory=list)
