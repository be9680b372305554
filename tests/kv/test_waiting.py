"""Equal work of a pool runs once."""

from __future__ import annotations

import asyncio

from innet.kv.pool.waiting import SingleFlight


def test_work_that_has_ended_is_not_joined_even_before_the_loop_has_told_anybody() -> None:
    async def watched() -> list[str]:
        flights: SingleFlight[str, str] = SingleFlight()
        ends: list[str] = []

        async def work() -> str:
            ends.append("one end")
            return "result"

        first = asyncio.ensure_future(flights.run("key", work))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert ends
        # In this very turn of the loop the work has ended, and nobody has heard of it.
        assert "key" not in flights
        assert await flights.run("key", work) == await first == "result"
        return ends

    assert asyncio.run(watched()) == ["one end", "one end"]
