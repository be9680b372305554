"""Plain forwarding: one node between a consumer and a producer, over UDP.

Each turn fetches Data first from the producer (misses: Interests ask for fresh Data), then from the
content store (hits). With ``--nfd`` the same turns alternate with NFD's. The rate per second of the
forwarder's own processor time says what one core can do; the rate on the clock is bounded by the
consumer, which shares the machine.

python benchmarks/forwarding.py --quick --json
"""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import socket
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from innet.errors import EmulationError
from innet.lab.compare.progress import ProgressBar
from shared.benchmark import Benchmark, Figures, argument_parser

WORKER = Path(__file__).with_name("workers") / "forwarding.py"
_CONTENTS_BYTES = (8192, 1024)
_IN_FLIGHT_BYTES = 1 << 20
_LARGEST_WINDOW = 256
_CACHE_MIB = 256
_STARTUP_S = 30.0

_Command = Callable[[Path, int], list[str]]
"""The command of a forwarder, from its folder and its UDP port."""

_NFD_CONFIG = """
general {{ }}
log {{ default_level ERROR }}
tables {{ cs_max_packets 65536 }}
face_system {{
  unix {{ path {socket} }}
  udp {{ port {port} mcast no }}
}}
authorizations {{ authorize {{ certfile any privileges {{ faces fib strategy-choice }} }} }}
rib {{ localhost_security {{ trust-anchor {{ type any }} }} }}
"""


def main() -> None:
    """Measure and print."""
    parser = argument_parser("Data that one node forwards in a second of processor time")
    parser.add_argument("--packets", type=int, help="in a turn; default 400000, quick: 60000")
    parser.add_argument("--turns", type=int, help="default 5, quick: 3")
    parser.add_argument("--nfd", type=Path, metavar="DIR", help="where NFD's program nfd lies")
    arguments = parser.parse_args()
    packets = arguments.packets or (60_000 if arguments.quick else 400_000)
    turns = arguments.turns or (3 if arguments.quick else 5)
    commands: dict[str, _Command] = {"innet": _innet_command}
    if arguments.nfd is not None:
        if shutil.which(arguments.nfd / "nfd") is None:
            parser.error(f"{arguments.nfd} has no program nfd")
        commands["nfd"] = lambda folder, port: _nfd_command(arguments.nfd, folder, port)
    benchmark = Benchmark("forwarding", arguments, deadline_s=900)

    async def measure(progress: ProgressBar) -> Figures:
        taken: dict[str, list[Figures]] = {}
        rounds = [(size, turn) for turn in range(turns) for size in _CONTENTS_BYTES]
        for done, (size_bytes, turn) in enumerate(rounds):
            progress(done / len(rounds), f"{size_bytes} bytes, turn {turn + 1} of {turns}")
            for name, command in commands.items():
                figures = await _turn(command, size_bytes, packets)
                taken.setdefault(f"{name}_{size_bytes}", []).append(figures)
        return {"packets": packets} | _medians(taken)

    benchmark.run(measure)


def _medians(taken: dict[str, list[Figures]]) -> Figures:
    result: Figures = {}
    for case, turns in taken.items():
        for key in turns[0]:
            values = [turn[key] for turn in turns]
            result[f"{case}_{key}"] = statistics.median(values)
            if key.endswith("per_node_core_s"):
                result[f"{case}_{key}_min"] = min(values)
                result[f"{case}_{key}_max"] = max(values)
    return result


async def _turn(command: _Command, content_bytes: int, packets: int) -> Figures:
    window = min(_LARGEST_WINDOW, _IN_FLIGHT_BYTES // content_bytes)
    with tempfile.TemporaryDirectory() as folder:
        port = _free_port()
        async with _running(command(Path(folder), port), Path(folder)) as pid:
            values = (_socket_in(Path(folder)), port, pid, content_bytes, packets, window)
            client = await asyncio.create_subprocess_exec(
                *(sys.executable, str(WORKER), *map(str, values)), stdout=asyncio.subprocess.PIPE
            )
            said, _ = await client.communicate()
    if client.returncode != 0:
        raise EmulationError("the consumer failed: see its last line above")
    figures: Figures = json.loads(said)
    return figures


def _socket_in(folder: Path) -> Path:
    return folder / "forwarder.sock"


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _innet_command(folder: Path, port: int) -> list[str]:
    return [
        *(sys.executable, "-m", "innet", "forwarder", "--unix", str(_socket_in(folder))),
        *("--no-tcp", "--udp", f"127.0.0.1:{port}", "--cache", str(_CACHE_MIB)),
    ]


def _nfd_command(programs: Path, folder: Path, port: int) -> list[str]:
    configuration = folder / "nfd.conf"
    configuration.write_text(_NFD_CONFIG.format(socket=_socket_in(folder), port=port))
    return [str(programs / "nfd"), "--config", str(configuration)]


@asynccontextmanager
async def _running(command: list[str], folder: Path) -> AsyncIterator[int]:
    """The forwarder's process identifier, while it listens."""
    forwarder = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
    try:
        async with asyncio.timeout(_STARTUP_S):
            while not _socket_in(folder).is_socket():
                if forwarder.returncode is not None:
                    raise EmulationError(f"{command[0]} ended with {forwarder.returncode}")
                await asyncio.sleep(0.05)
        yield forwarder.pid
    finally:
        if forwarder.returncode is None:
            forwarder.send_signal(signal.SIGINT)
            await forwarder.wait()


if __name__ == "__main__":
    main()
