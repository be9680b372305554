"""The switches' part of a trace, when it cannot be written."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from innet.telemetry.trace.job_trace import SwitchSampler


def test_a_file_that_cannot_be_written_ends_the_sampling_with_a_warning(tmp_path: Path, caplog):
    async def read_status() -> dict[str, dict[str, Any]]:
        node = {"cache_bytes": 0, "pit_entries": 0}
        return {"s0": {"kind": "switch", "links": [], "reducer": {"slots_in_use": 0}, "node": node}}

    asyncio.run(SwitchSampler(tmp_path / "is not there", read_status).run())
    assert "the trace of the switches ends here, the job goes on" in caplog.text
