"""However a rank's process ends, each other rank knows within 5 s, with its name and the cause."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from contextlib import suppress

import pytest

from innet.cluster.launch import JobFailed, Session
from innet.node.node_config import Mode
from innet.topology import load_topology
from tests.faults.conftest import worker

KNOWN_WITHIN_S = 5.0
QUIT = "exited with code 0 without closing its worker"
OTHER_PROGRAM = "runs another program now, without closing its worker"
ENDINGS = {
    "exit 0": QUIT,
    "exit 3": "exited with code 3",
    "sys.exit": "ended by sys.exit(3)",
    "sys.exit 0": "left the group",
    "exception": "failed with ValueError: a bad day",
    "kill": "was killed by signal 9 (SIGKILL)",
    "term": "was killed by signal 15 (SIGTERM)",
    "fault": "was killed by signal 11 (SIGSEGV)",
    "thread": QUIT,
    "daemon": QUIT,
    "exec": OTHER_PROGRAM,
    "exec innet": OTHER_PROGRAM,
    "stop and kill": "was killed by signal 9 (SIGKILL)",
}
ALGORITHMS = ("inc", "ring", "halving-doubling", "ps", "auto")
CASES = [
    *(("numpy", algorithm) for algorithm in ALGORITHMS),
    *(("torch", algorithm) for algorithm in ("inc", "ring")),
]


def wrong(ending: str, lines: Sequence[tuple[str, str]], ranks: Sequence[str]) -> list[str]:
    """What is wrong with the lines of a job on these hosts whose rank 1 ended."""
    text = "\n".join(f"{label} {line}" for label, line in lines)
    ends = re.search(r"ends at ([\d.]+)", text)
    if ends is None:
        return [f"{ending}: it did not end: {text}"]
    why = f"rank 1 ({ranks[1]}) {ENDINGS[ending]}"
    found = []
    for node in (*ranks[:1], *ranks[2:]):
        known = re.search(rf"^{node} knows: (.*) at ([\d.]+)$", text, re.MULTILINE)
        after_s = float(known[2]) - float(ends[1]) if known else float("inf")
        if known is None or why not in known[1] or after_s > KNOWN_WITHIN_S:
            found.append(f"{ending}: {node} after {after_s:.1f} s: {known[1] if known else text}")
    return found


async def wrong_on(mode: Mode, algorithm: str, backend: str, endings: Sequence[str]) -> list[str]:
    """What is wrong after each of ``endings``, in a job of its own on one network."""
    found: list[str] = []
    async with Session(load_topology("star:3"), mode=mode) as session:
        for ending in endings:
            lines: list[tuple[str, str]] = []
            with tempfile.TemporaryDirectory() as folder, suppress(JobFailed):
                await session.run_workers(
                    worker("ends.py", ending, backend, folder),
                    algorithm=algorithm,
                    output=lambda label, line, lines=lines: lines.append((label, line)),
                )
            found += wrong(ending, lines, ("h0", "h1", "h2"))
    return found


async def test_other_ranks_know_soon_that_a_rank_has_ended() -> None:
    assert await wrong_on("local", "ring", "numpy", ("exit 0", "kill", "exec innet")) == []


@pytest.mark.faults
@pytest.mark.netns
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", ["local", "netns"])
@pytest.mark.parametrize(("backend", "algorithm"), CASES)
async def test_other_ranks_know_soon_of_every_end(mode: Mode, algorithm: str, backend: str) -> None:
    assert await wrong_on(mode, algorithm, backend, tuple(ENDINGS)) == []
