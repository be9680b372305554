"""Look-ups of prefixes a second: in the index alone, and over HTTP on loopback.

python benchmarks/kv_lookups.py --json
python benchmarks/kv_lookups.py --quick

Prompts of 1,000 and 8,000 tokens, of which 0 to all are held, by 2 of 16 candidates, in blocks of
16 tokens.

* ``index_<tokens>_us``: processor time of a look-up in the index.
* ``<form>_<tokens>_<batch>_<clients>_lookups_per_s``: over HTTP, by 1 or 2 clients, each on one
  connection, one call of 1, 16 or 64 prompts after the other. Forms: lists in JSON (``lists``),
  base64 in JSON (``packed``), bytes in msgpack (``msgpack``).
* ``<form>_<tokens>_<batch>_<clients>_us``: the server's processor time of a look-up.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import struct
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from innet.errors import KVError
from innet.kv.events.service import PoolDirectory, serving
from innet.kv.events.wire import BlocksStored
from innet.lab.compare.progress import ProgressBar
from shared.benchmark import Benchmark, Figures, argument_parser

CLIENT = Path(__file__).parent / "shared" / "lookup_client.py"
FORMS = ("lists", "packed", "msgpack")
LENGTHS = (1000, 8000)
BATCHES = (1, 16, 64)
CLIENTS = (1, 2)
MEMBERS = tuple(f"e{number}" for number in range(16))
HOLDERS = 2
BLOCK = 16
MODEL = "m"

Prompt = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Load:
    """What clients send.

    Attributes:
        form: of the prompts.
        tokens: of a prompt.
        batch: prompts of a call.
        clients: at once.
    """

    form: str
    tokens: int
    batch: int
    clients: int

    @property
    def key(self) -> str:
        """Of its figures."""
        return f"{self.form}_{self.tokens}_{self.batch}_{self.clients}"

    def bodies(self, prompts: Sequence[Prompt]) -> list[bytes]:
        """Of the requests of one client."""
        batches = [
            prompts[start : start + self.batch] for start in range(0, len(prompts), self.batch)
        ]
        if self.form == "lists":
            return [_json("prompts", [each.tolist() for each in batch]) for batch in batches]
        packed = [[each.tobytes() for each in batch] for batch in batches]
        if self.form == "packed":
            return [_json("packed", batch) for batch in packed]
        return [msgspec.msgpack.encode({"packed": batch, "members": MEMBERS}) for batch in packed]


def main() -> None:
    """The index, and all loads."""
    parser = argument_parser("look-ups of prefixes a second")
    parser.add_argument("--lookups", type=int, help="of each client; default 4096")
    arguments = parser.parse_args()
    lookups = arguments.lookups or (128 if arguments.quick else 4096)
    benchmark = Benchmark("kv_lookups", arguments, deadline_s=1800)

    async def measure(progress: ProgressBar) -> Figures:
        figures: Figures = {}
        for tokens in LENGTHS:
            figures |= await _measured(tokens, lookups)
        _print(figures)
        return figures

    benchmark.run(measure)


async def _measured(tokens: int, lookups: int) -> Figures:
    directory = PoolDirectory()
    prompts = _held_prompts(directory, tokens, min(lookups, 512))
    began_s = time.process_time()
    for prompt in prompts:
        directory.index.locate(MODEL, prompt, members=MEMBERS)
    figures: Figures = {f"index_{tokens}_us": _us(began_s, len(prompts))}
    async with serving(directory) as address:
        for form, batch, clients in product(FORMS, BATCHES, CLIENTS):
            load = Load(form, tokens, batch, clients)
            figures |= await _asked(address, load, prompts, max(1, lookups // len(prompts)))
    return figures


def _held_prompts(directory: PoolDirectory, tokens: int, count: int) -> list[Prompt]:
    choice = random.Random(1)
    hashes = iter(range(1, 1 << 40))
    prompts = []
    for _ in range(count):
        prompt = np.array([choice.randrange(128_000) for _ in range(tokens)], "<u4")
        held = choice.randrange(0, tokens + 1, BLOCK)
        for member in choice.sample(MEMBERS, HOLDERS):
            if there := tuple(next(hashes) for _ in range(held // BLOCK)):
                stored = BlocksStored(there, None, tuple(prompt[:held].tolist()), BLOCK)
                directory.apply(member, MODEL, [stored])
        prompts.append(prompt)
    return prompts


def _json(key: str, prompts: Sequence[object]) -> bytes:
    return msgspec.json.encode({key: prompts, "members": MEMBERS})


async def _asked(address: str, load: Load, prompts: Sequence[Prompt], rounds: int) -> Figures:
    """Figures of the load, sent by other processes."""
    form = "application/msgpack" if load.form == "msgpack" else "application/json"
    where = address.removeprefix("http://").split(":")
    command = (sys.executable, str(CLIENT), *where, "/v1/locate", form, str(rounds))
    bodies = load.bodies(prompts)
    given = b"".join(struct.pack("<Q", len(body)) + body for body in (*bodies, b""))
    clients: list[Process] = []
    try:
        for _ in range(load.clients):
            clients.append(await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE))
        outputs = [await _started(client, given) for client in clients]
        began_s = time.process_time()
        for stdin, _ in outputs:
            stdin.write(b"\n")
        took_s = [float(await stdout.readline() or "nan") for _, stdout in outputs]
        lookups = load.clients * rounds * len(prompts)
        used_us = _us(began_s, lookups)
        if any([await client.wait() for client in clients]):
            raise KVError("a client of the index ended with an error")
    finally:
        for client in clients:
            with contextlib.suppress(ProcessLookupError):
                client.kill()
    return {f"{load.key}_lookups_per_s": lookups / max(took_s), f"{load.key}_us": used_us}


async def _started(
    client: Process, given: bytes
) -> tuple[asyncio.StreamWriter, asyncio.StreamReader]:
    assert client.stdin is not None
    assert client.stdout is not None
    client.stdin.write(given)
    await client.stdin.drain()
    await client.stdout.readline()
    return client.stdin, client.stdout


def _us(began_s: float, lookups: int) -> float:
    return 1e6 * (time.process_time() - began_s) / lookups


def _print(figures: Figures) -> None:
    table = Table("form", "tokens", "in a call", "clients", "look-ups/s", "server's µs")
    for tokens in LENGTHS:
        table.add_row("index", str(tokens), "", "", "", f"{figures[f'index_{tokens}_us']:.1f}")
        for form, batch, clients in product(FORMS, BATCHES, CLIENTS):
            load = Load(form, tokens, batch, clients)
            rate, used_us = figures[f"{load.key}_lookups_per_s"], figures[f"{load.key}_us"]
            numbers = (tokens, batch, clients)
            table.add_row(form, *map(str, numbers), f"{rate:.0f}", f"{used_us:.1f}")
    Console(width=110, stderr=True).print(table)


if __name__ == "__main__":
    main()
