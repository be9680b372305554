"""Where the blocks of a replay were found."""

from __future__ import annotations

from dataclasses import dataclass

from innet.lab.replay.statistics import ReplayStatistics


@dataclass(frozen=True)
class BlockCounts:
    """Blocks of requests by where they were found. Made of plain values.

    Attributes:
        local: in the memory of the host that asked.
        switches: on the way: in a switch's content store, or with the answer to somebody else who
            asked at the same time. Parts of a block may come from different places; it is where its
            beginning was.
        by_switch: of these, by switch, in proportion to what their content stores have answered.
        homes: at their homes.
        computed: nowhere.
        late: of these, asked for in vain until their deadline.
        puts: brought to homes.
        lost_puts: that did not come there.
    """

    local: int
    switches: int
    by_switch: dict[str, float]
    homes: int
    computed: int
    late: int
    puts: int
    lost_puts: int

    @classmethod
    def of(
        cls, statistics: ReplayStatistics, given_by_homes: int, switch_hits: dict[str, int]
    ) -> BlockCounts:
        """From what was counted on the hosts and at the switches."""
        homes = min(given_by_homes + statistics.own_home, statistics.fetched)
        on_path = statistics.fetched - homes
        hits = sum(switch_hits.values())
        return cls(
            local=statistics.local,
            switches=on_path,
            by_switch={
                switch: on_path * count / hits for switch, count in switch_hits.items() if count
            },
            homes=homes,
            computed=statistics.missed,
            late=statistics.late,
            puts=statistics.puts,
            lost_puts=statistics.lost_puts,
        )
