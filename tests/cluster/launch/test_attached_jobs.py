"""Processes that other launchers start, as ranks of a job on a network that is up."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import innet
from innet.cluster.emulation.runs import find_run
from innet.cluster.launch import Session
from innet.errors import DeadlineExceeded, EmulationError
from innet.observe.doctor.checks.parts import BadNode
from innet.observe.doctor.observation import observe
from innet.topology import Topology, load_topology

# Starting a network takes longer than most tests: these use one that is up.
on_one_network = pytest.mark.asyncio(loop_scope="module")

LEAVING_S = 60.0
WORKERS = Path(__file__).parent / "workers"
TWO_BY_TWO = load_topology("star:2").with_workers(2)
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nnodes", "1")


@asynccontextmanager
async def up(topology: Topology = TWO_BY_TWO, **options: Any) -> AsyncIterator[Session]:
    async with Session(topology, output=lambda *_: None, **options) as session:
        yield session


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session() -> AsyncIterator[Session]:
    """A network of two hosts with two workers each, which no test changes."""
    is_up: asyncio.Future[Session] = asyncio.get_running_loop().create_future()
    may_end = asyncio.Event()

    async def keep_up() -> None:  # one task enters and leaves it, as it has to
        async with up() as session:
            is_up.set_result(session)
            await may_end.wait()

    keeping = asyncio.create_task(keep_up())
    either: tuple[asyncio.Future[Any], ...] = (keeping, is_up)
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if keeping.done():
        keeping.result()
    yield is_up.result()
    may_end.set()
    await keeping


async def start(session: Session, *argv: str, **variables: object) -> Process:
    environment = {
        **os.environ,
        "INNET_NETWORK": session.network.run_id,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29400",  # names the job; nobody listens there
        **{name: str(value) for name, value in variables.items()},
    }
    return await asyncio.create_subprocess_exec(
        *argv, env=environment, stdin=PIPE, stdout=PIPE, stderr=asyncio.subprocess.STDOUT
    )


async def start_ranks(session: Session, task: str, size: int, *hosts: str) -> list[Process]:
    """Ranks of one job, each with its host if some are named."""
    script = str(WORKERS / "attaches.py")
    return [
        await start(
            session,
            *(sys.executable, script, task, *hosts[rank : rank + 1]),
            RANK=rank,
            WORLD_SIZE=size,
        )
        for rank in range(size)
    ]


async def lines_of(process: Process) -> list[str]:
    """What a process says until it ends; its standard input ends now."""
    output, _ = await process.communicate(b"")
    return output.decode().splitlines()


async def said_by(processes: list[Process]) -> list[list[str]]:
    return await asyncio.gather(*map(lines_of, processes))


async def read_until(process: Process, expected: str) -> None:
    assert process.stdout is not None
    lines = []
    while (line := (await process.stdout.readline()).decode().rstrip()) != expected:
        lines.append(line)
        assert not process.stdout.at_eof(), lines


async def jobs_on(session: Session) -> list[Any]:
    """The jobs on the switch, once those have left whose processes have ended."""
    deadline_s = time.monotonic() + LEAVING_S
    while True:
        jobs: list[Any] = (await session.status())["s0"]["jobs"]
        if not jobs or time.monotonic() > deadline_s:
            return jobs


@on_one_network
async def test_ranks_attach_sum_and_detach_without_remains(session: Session) -> None:
    said = await said_by(await start_ranks(session, "add", 4))
    assert said == [
        [f"attached to {node}", f"rank {rank}: [10.0, 10.0, 10.0]"]
        for rank, node in enumerate(TWO_BY_TWO.hosts)
    ]
    assert await jobs_on(session) == []


@on_one_network
async def test_ranks_get_the_hosts_that_they_request(session: Session) -> None:
    said = await said_by(await start_ranks(session, "add", 3, "h1.1", "h0", "h1"))
    assert [lines[0] for lines in said] == [
        f"attached to {node}" for node in ("h1.1", "h0.0", "h1.0")
    ]


@on_one_network
async def test_a_process_attaches_again_after_it_has_detached(session: Session) -> None:
    first, second = await said_by(await start_ranks(session, "again", 2))
    assert len(first) == 3
    assert first[1].startswith("rank 0: [3.0")
    assert len(set(second[1:])) == 1


@on_one_network
async def test_the_death_of_a_rank_is_reported_and_frees_the_hosts(session: Session) -> None:
    survivor, victim = await start_ranks(session, "wait", 2, "h0.0", "h0.1")
    for process in (survivor, victim):
        await read_until(process, "ready")
    victim.kill()
    (said,) = await lines_of(survivor)
    assert said.startswith("RankFailed: ")
    assert "rank 1 (h0.1) ended without closing its worker" in said
    await said_by(await start_ranks(session, "add", 4))
    assert await jobs_on(session) == []


@on_one_network
async def test_a_job_waits_for_the_hosts_of_a_failing_job(session: Session) -> None:
    """The other one may be dead, too, and its machine not be lost yet."""
    gone, silent = await start_ranks(session, "wait", 2, "h0.0", "h0.1")
    for process in (gone, silent):
        await read_until(process, "ready")
    silent.send_signal(signal.SIGSTOP)
    gone.kill()
    await gone.wait()
    program = "import innet; print(innet.attach(host='h0.0', job='next', rank=0, size=1))"
    successor = await start(session, sys.executable, "-c", program)
    assert session._attached is not None
    while "next" not in session._attached._jobs:
        assert successor.returncode is None, await lines_of(successor)
        await asyncio.sleep(0.02)
    silent.kill()
    assert await lines_of(successor) == ["h0.0"]


@on_one_network
async def test_attached_ranks_are_shown_as_live_until_they_end(session: Session) -> None:
    processes = await start_ranks(session, "wait", 2, "h0.0", "h0.1")
    for process in processes:
        await read_until(process, "ready")
    record = find_run(session.network.run_id)
    seen = await asyncio.to_thread(observe, record)
    assert not list(BadNode().findings(seen))
    assert {"h0.0", "h0.1"} <= seen.after.status.nodes.keys()
    attached = {p.identity.pid: p.node for p in record.processes if p.attached}
    assert attached == {processes[0].pid: "h0.0", processes[1].pid: "h0.1"}
    await said_by(processes)
    left = find_run(session.network.run_id).processes
    assert not [process for process in left if process.attached]


async def test_ranks_end_when_their_network_does() -> None:
    async with up() as session:
        processes = await start_ranks(session, "wait", 2, "h0.0", "h0.1")
        for process in processes:
            await read_until(process, "ready")
        run_id = session.network.run_id
    (said,) = await lines_of(processes[0])
    assert f"lost its network: {run_id} was taken down" in said
    assert await lines_of(processes[1]) == []


@on_one_network
async def test_more_ranks_than_workers_are_refused(session: Session) -> None:
    script = str(WORKERS / "attaches.py")
    (said,) = await lines_of(
        await start(session, sys.executable, script, "add", RANK=0, WORLD_SIZE=5)
    )
    assert said.startswith("EmulationError: ")
    assert "needs 5 workers, and the network has 4 (h0.0, h0.1, h1.0, h1.1)" in said
    assert "--workers-per-host" in said


@on_one_network
async def test_used_or_unknown_hosts_are_refused_on_all_ranks(session: Session) -> None:
    (waiting,) = await start_ranks(session, "wait", 1, "h0.1")
    await read_until(waiting, "ready")
    for hosts, size, why in (
        (("h1", "h0.1"), 2, "HostTaken: rank 1 asks for h0.1, which is taken (h0.1: job j"),
        (("h1", "h7"), 2, "rank 1 asks for h7, which is no host of star-2. Its hosts: h0.0, h0.1"),
        ((), 4, "4 ranks need a worker each, and 3 of 4 are free; other jobs have h0.1"),
    ):
        for said in await said_by(await start_ranks(session, "add", size, *hosts)):
            assert why in said[0]
    near = await said_by(await start_ranks(session, "add", 2))
    assert [lines[0] for lines in near] == ["attached to h1.0", "attached to h1.1"]
    assert await lines_of(waiting) == []


@on_one_network
async def test_absent_ranks_are_named(session: Session) -> None:
    program = "import innet; innet.attach(rank=1, size=3, job='x', timeout_s=0.1)"
    said = await lines_of(await start(session, sys.executable, "-c", program))
    assert "ranks 0, 2 of 3 did not attach within 0.1 s" in said[-1]


@on_one_network
async def test_a_rank_number_cannot_be_used_twice(session: Session) -> None:
    first, second = await start_ranks(session, "wait", 2, "h0.0", "h0.1")
    for process in (first, second):
        await read_until(process, "ready")
    for said in await said_by(await start_ranks(session, "add", 2)):
        assert said == [said[0]]
        assert said[0].startswith("HostTaken: ")
        assert "of this job is attached already, as process" in said[0]
    assert await lines_of(second) == []


@pytest.mark.netns
async def test_a_network_in_namespaces_is_refused() -> None:
    async with up(load_topology("star:1"), mode="netns") as session:
        (said,) = await lines_of((await start_ranks(session, "add", 1))[0])
        assert "runs in namespaces" in said
        assert f"innet run --on {session.network.run_id}" in said


@on_one_network
async def test_an_unknown_network_is_refused(session: Session) -> None:
    script = str(WORKERS / "attaches.py")
    process = await start(session, sys.executable, script, "add", INNET_NETWORK="nowhere")
    (said,) = await lines_of(process)
    assert said.startswith("EmulationError: there is no run nowhere.")
    assert session.network.run_id in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"rank": -1}, "invalid rank=-1: expected a whole number from 0; pass rank=, or set RANK"),
        ({"size": 0}, "invalid size=0: expected a whole number from 1"),
        ({"timeout_s": 0.0}, "invalid timeout_s=0.0: expected seconds above 0"),
        ({"timeout_s": math.inf}, "invalid timeout_s=inf: "),
        ({"timeout_s": math.nan}, "invalid timeout_s=nan: "),
        ({"job": "x" * 257}, "expected a text of 1 to 256 characters"),
    ],
)
def test_invalid_arguments_are_refused_by_name(arguments: Any, said: str) -> None:
    with pytest.raises(EmulationError) as refused:
        innet.attach(**{"job": "x", "rank": 0, "size": 1, **arguments})
    assert said in str(refused.value)


@pytest.mark.torch
def test_restarted_ranks_do_not_join_the_earlier_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`torchrun` gives them the same store."""
    from torch.distributed import HashStore

    from innet.torch_backend.creation import _agreed_job

    store = HashStore()
    first = _agreed_job(store, 0, 0.0)
    assert _agreed_job(store, 1, 0.0) == first
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    with pytest.raises(DeadlineExceeded, match="rank 0 did not join"):
        _agreed_job(store, 1, 0.0)
    assert _agreed_job(store, 0, 0.0) != first


@pytest.mark.torch
@on_one_network
async def test_torchrun_starts_the_ranks_of_several_workers_and_restarts_them(
    session: Session, tmp_path: Path
) -> None:
    program = tmp_path / "train.py"
    program.write_text(
        "import os, torch, torch.distributed as dist\n"
        "dist.init_process_group('innet')\n"
        "total = torch.ones(2)\n"
        "dist.all_reduce(total)\n"
        "restarts = os.environ['TORCHELASTIC_RESTART_COUNT']\n"
        "line = f'rank {dist.get_rank()} start {restarts} {total.tolist()}\\n'\n"
        "os.write(1, line.encode())  # at once: print() writes the end of the line apart\n"
        "if dist.get_rank() == 1 and restarts == '0':\n"
        "    os._exit(1)\n"
        "dist.barrier()\n"
        "dist.destroy_process_group()\n"
    )
    options = ("--nproc-per-node", "2", "--max-restarts", "1", "--rdzv-backend", "c10d")
    torchrun = await start(
        session, *TORCHRUN, *options, "--rdzv-endpoint", "127.0.0.1:0", str(program)
    )
    said = await lines_of(torchrun)
    assert torchrun.returncode == 0, said
    for rank in range(2):
        assert f"rank {rank} start 1 [2.0, 2.0]" in said
    assert await jobs_on(session) == []
