"""A standing pool with a vLLM server on two of its three hosts, by the documented commands."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import psutil

from innet.cluster.emulation.processes import ProcessGroup, ProcessSpec
from shared.vllm_servers import write_model
from tests.cluster.several_machines.machines import INNET, QUICK, Program, machines, star
from tests.kv_adapters.running import documented_command, free_ports
from tests.kv_adapters.vllm_cpu.asks import LOADABLE, PROMPTS
from tests.kv_adapters.vllm_cpu.servers import ENVIRONMENT, QUICK_START

ENGINES: Final = ("h1", "h2")
HOSTS: Final = (*ENGINES, "h3")
_ASKS: Final = str(Path(__file__).with_name("asks.py"))
_POOL: Final = """
pool:
  replicas: 2
  tenants:
    acme: {secret: acme.secret, memory: 64MiB}
"""
_ANSWERED: Final = "answered "
_DOWN: Final = "down"
Start = Callable[..., Program]
"""Starts a program on a machine: ``start("h1", *argv)``."""


class Answer(NamedTuple):
    """Of a prompt, and how many of its tokens were loaded from the pool."""

    prompt: int
    loaded: int
    text: str


class Client:
    """Asks one host's server all the time.

    Attributes:
        server: of its host, which must not end while an answer is awaited.
    """

    def __init__(self, program: Program, server: Program) -> None:
        self._program = program
        self.server = server

    @property
    def answers(self) -> list[Answer]:
        """All so far; that there are others is an error."""
        found = []
        for line in self._program.lines:
            assert not line.startswith(("late", "failed")), line
            if line.startswith(_ANSWERED):
                prompt, loaded, text = line.removeprefix(_ANSWERED).split(" ", 2)
                found.append(Answer(int(prompt), int(loaded), text))
        return found

    async def answer_after(self, count: int) -> Answer:
        """The one after so many answers."""
        answered = asyncio.ensure_future(self._program.says(_ANSWERED, count + 1))
        ended = asyncio.ensure_future(self.server.ends())
        await asyncio.wait([answered, ended], return_when=asyncio.FIRST_COMPLETED)
        assert answered.done(), f"the server ended:\n{self.server.text[-5000:]}"
        ended.cancel()
        answered.result()
        return self.answers[count]

    async def answers_more(self, count: int = 2 * PROMPTS) -> None:
        """Wait for so many more answers."""
        await self.answer_after(len(self.answers) + count - 1)

    async def finds_no_server(self) -> None:
        """Wait until the server does not run."""
        downs = sum(line == _DOWN for line in self._program.lines)
        await self._program.says(_DOWN, downs + 1)

    async def loads_all_prompts(self) -> None:
        """Wait until each prompt, one after the other, is loaded from the pool."""
        loaded, seen = 0, len(self.answers)
        while loaded < PROMPTS:
            loaded = loaded + 1 if (await self.answer_after(seen)).loaded == LOADABLE else 0
            seen += 1


@dataclass
class StandingPool:
    """The pool, its servers and their clients.

    Attributes:
        folder: with its files.
        options: by which an engine of a host attaches to it.
        join: lets the machine of a host join, if that is not this machine.
    """

    folder: Path
    start: Start
    options: Callable[[str], dict[str, object]]
    join: Callable[[str, str], Program] | None = None

    def __post_init__(self) -> None:
        self.servers: dict[str, Program] = {}
        self.clients: dict[str, Client] = {}
        self.agents: dict[str, Program] = {}
        first = free_ports(len(ENGINES))
        self._ports = {host: first + number for number, host in enumerate(ENGINES)}
        self._model = self.folder / "model"

    def serve(self, host: str) -> None:
        """Start vLLM on a host, as documented, with the small model that it computes."""
        command = documented_command("vLLM", "vllm serve")
        options = {**self.options(host), "memory": 0}  # each load crosses the network
        for documented, tested in (
            ("meta-llama/Llama-3.1-8B", f"{self._model} --port {self._ports[host]} {QUICK_START}"),
            ("--tensor-parallel-size 2", ""),
            ('{"address": "prod", "tenant": "acme", "secret": "acme.secret"}', json.dumps(options)),
        ):
            assert documented in command
            command = command.replace(documented, tested)
        variables = {
            **ENVIRONMENT,
            # Bound to the same processor, a server that computes would starve one that starts.
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": "1",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "INNET_HOST": host,
            "VLLM_SERVER_DEV_MODE": "1",  # lets clients drop the server's own cache
        }
        given = (f"{name}={value}" for name, value in variables.items())
        self.servers[host] = self.start(host, "env", *given, "sh", "-c", f"exec {command}")
        if host in self.clients:
            self.clients[host].server = self.servers[host]

    def ask(self, host: str) -> Client:
        """Start the client of a host's server."""
        port = str(self._ports[host])
        program = self.start(host, sys.executable, _ASKS, port, str(self._model))
        self.clients[host] = Client(program, self.servers[host])
        return self.clients[host]

    def join_machine(self, host: str) -> None:
        """Start the agent of a host's machine."""
        assert self.join is not None
        self.agents[host] = self.join(host, host)

    def process(self, node: str) -> psutil.Process:
        """The process of a node; those of other networks are not below this folder."""
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                variables = process.environ()
                if variables.get("INNET_NODE") == node and variables.get(
                    "XDG_RUNTIME_DIR", ""
                ).startswith(str(self.folder)):
                    return process
        raise AssertionError(f"no process of {node} runs")

    def write_files(self) -> Path:
        """Write the model, the tenant's secret and the pool's file."""
        write_model(self._model)
        secret = self.folder / "acme.secret"
        secret.touch(mode=0o600)
        secret.write_text("at least sixteen bytes")
        file = self.folder / "pool.yaml"
        file.write_text(star(HOSTS, s0="cache: 0") + _POOL)
        return file


@asynccontextmanager
async def on_one_machine() -> AsyncIterator[StandingPool]:
    """All hosts on this machine."""
    with tempfile.TemporaryDirectory(prefix="innet-v-") as name:
        folder = Path(name)
        processes = ProcessGroup("engines", lambda _label, line: print(line))

        def start(machine: str, *argv: str) -> Program:
            label = f"{machine}.{len(processes.processes)}"
            spec = ProcessSpec(label, argv, environment={"XDG_RUNTIME_DIR": name})
            program = Program()
            program.process = processes.spawn(spec, program)
            return program

        def options(_host: str) -> dict[str, object]:
            return {"address": "prod", "tenant": "acme", "secret": f"{folder}/acme.secret"}

        pool = StandingPool(folder, start, options)
        serving = start("h0", *INNET, "kv", "serve", str(pool.write_files()), "--name", "prod")
        try:
            await serving.says("the blocks of acme on 3 hosts")
            yield pool
        finally:
            await processes.terminate()


@asynccontextmanager
async def on_machines() -> AsyncIterator[StandingPool]:
    """Each host on a machine of its own, which has joined the network of a fourth one."""
    async with machines(1 + len(HOSTS)) as lab:

        def options(host: str) -> dict[str, object]:
            return {
                "address": lab.address,
                "token_file": str(lab.folder / host / "token"),
                "tenant": "acme",
                "secret": str(lab.folder / "acme.secret"),
            }

        pool = StandingPool(lab.folder, lab.start, options, lab.join)
        where = ("--listen", lab.address, "--token-file", str(lab.folder / "token"))
        file = str(pool.write_files())
        serving = lab.innet("h0", "kv", "serve", file, "--name", "prod", *where, *QUICK)
        await serving.says("0 of")
        for host in HOSTS:
            pool.join_machine(host)
        await serving.says("the blocks of acme on 3 hosts")
        yield pool
