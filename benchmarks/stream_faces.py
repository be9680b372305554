"""A transfer over a forwarder's Unix socket to a client that is slower than the forwarder.

The content store answers; the client (``workers/stream_faces.py``) uses CUBIC and backs off when
Data are marked. Turns with and without congestion marks alternate; where another forwarder listens
at ``--peer``, the same transfer over that one takes turns with them.

python benchmarks/stream_faces.py --json
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from innet.errors import EmulationError
from innet.lab.compare.progress import ProgressBar
from innet.ndn import Client, Name, encode_data
from innet.ndn.wire import ReceivedInterest
from innet.node.forwarder import Forwarder, ForwarderOptions
from shared.benchmark import Benchmark, Figures, argument_parser

WORKER = Path(__file__).with_name("workers") / "stream_faces.py"
_PREFIX = "/bench"
_CONTENT_BYTES = 8000
_CACHE_BYTES = 256 << 20
_SAMPLE_S = 0.01
_AT_ONCE = 64
_PEER = Path("/run/nfd/nfd.sock")

_Turn = dict[str, float]


def main() -> None:
    """Measure and print."""
    parser = argument_parser("a transfer over a Unix socket, with and without congestion marks")
    parser.add_argument("--packets", type=int, help="in a turn; default 16000, quick: 4000")
    parser.add_argument("--turns", type=int, help="of each kind; default 7, quick: 2")
    parser.add_argument(
        "--peer", type=Path, default=_PEER, help=f"socket of another forwarder, default {_PEER}"
    )
    arguments = parser.parse_args()
    count = arguments.packets or (4000 if arguments.quick else 16_000)
    turns = arguments.turns or (2 if arguments.quick else 7)
    benchmark = Benchmark("stream_faces", arguments, deadline_s=600)

    async def measure(progress: ProgressBar) -> Figures:
        with tempfile.TemporaryDirectory() as folder:
            own = Path(folder) / "f.sock"
            options = ForwarderOptions([f"unix://{own}"], cache_bytes=_CACHE_BYTES)
            with Forwarder(options) as forwarder:
                kinds = {"marks": (own, ()), "no_marks": (own, ("--no-marks",))}
                if arguments.peer.is_socket():
                    kinds["peer"] = (arguments.peer, ())
                for path in {path for path, _ in kinds.values()}:
                    await _fill(path, count)
                taken: dict[str, list[_Turn]] = {kind: [] for kind in kinds}
                for turn in range(turns):
                    for kind, (path, extra) in kinds.items():
                        queued = forwarder if path == own else None
                        taken[kind].append(await _turn(path, count, extra, queued))
                        progress((turn + 1) / turns, f"turn {turn + 1} of {turns}")
        return {"packets": count} | _figures(taken)

    benchmark.run(measure)


def _figures(taken: dict[str, list[_Turn]]) -> Figures:
    figures: Figures = {}
    for kind, turns in taken.items():
        for key in ("goodput_bps", "repeated", "marks", "nacks"):
            figures[f"{kind}_{key}"] = statistics.median(turn[key] for turn in turns)
        for name, choose in (("min", min), ("max", max)):
            figures[f"{kind}_goodput_{name}_bps"] = choose(turn["goodput_bps"] for turn in turns)
        figures[f"{kind}_repeated_max"] = max(turn["repeated"] for turn in turns)
        if kind != "peer":
            figures[f"{kind}_queued_max_bytes"] = max(turn["queued_max_bytes"] for turn in turns)
            figures[f"{kind}_dropped"] = sum(turn["dropped"] for turn in turns)
    return figures


async def _fill(path: Path, count: int) -> None:
    """Let the forwarder's content store have all packets."""
    content = bytes(_CONTENT_BYTES)

    def answer(interest: ReceivedInterest) -> bytes:
        return encode_data(interest.name, content, freshness_s=3600)

    async with Client(f"unix://{path}") as producer, Client(f"unix://{path}") as consumer:
        await producer.register(_PREFIX, answer)
        for first in range(0, count, _AT_ONCE):
            names = (Name(f"{_PREFIX}/seg={n}") for n in range(first, min(count, first + _AT_ONCE)))
            await asyncio.gather(*(consumer.express(name, deadline_s=30) for name in names))


async def _turn(
    path: Path, count: int, extra: tuple[str, ...], forwarder: Forwarder | None
) -> _Turn:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(WORKER), str(path), _PREFIX, str(count), *extra),
        stdout=asyncio.subprocess.PIPE,
    )
    ended = asyncio.create_task(process.communicate())
    queue = {"queued_max_bytes": 0, "dropped": 0}
    while not ended.done():
        await asyncio.wait([ended], timeout=_SAMPLE_S)
        if forwarder is not None:
            _look(forwarder, queue)
    said, _ = await ended
    if process.returncode != 0:
        raise EmulationError(f"the client over {path} failed: see its last line above")
    figures: _Turn = json.loads(said)
    return figures | queue


def _look(forwarder: Forwarder, queue: dict[str, int]) -> None:
    """The face's own maximum; read until it closes."""
    faces: list[dict[str, Any]] = forwarder.node.status()["foreign_faces"]
    for face in faces:
        queue["queued_max_bytes"] = max(queue["queued_max_bytes"], face["queued_max_bytes"])
        queue["dropped"] = max(queue["dropped"], face["backlog_dropped"])


if __name__ == "__main__":
    main()
