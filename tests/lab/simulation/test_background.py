"""Communicators work beside their programs in virtual time: rounds, registered arrays."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import numpy as np
import pytest

import innet
from innet.collectives import Communicator
from innet.errors import DeadlineExceeded, RankFailed
from innet.topology import load_topology


@pytest.fixture
def sim() -> Any:
    with innet.Simulation(load_topology("star:4"), audit_interval=1) as made:
        yield made


def test_rounds_close_by_the_simulations_clock(sim: innet.Simulation) -> None:
    async def round_of(comm: Communicator) -> tuple[tuple[int, ...], float]:
        await asyncio.sleep(0.01 * comm.rank)
        part = await comm.iallreduce_of(np.ones(1000), innet.KOfN(2, deadline_s=0.025))
        assert part.total[0] == len(part.contributors)
        return part.contributors, sim.now_s

    outcomes = sim.run(*(round_of(comm) for comm in sim.group()))
    assert {contributors for contributors, _ in outcomes} == {(0, 1, 2)}
    assert 0.025 <= outcomes[0][1] < 0.027
    assert 0.03 <= outcomes[3][1] < 0.032


def test_a_late_rank_keeps_its_contribution_when_the_sum_overwrites_the_array(
    sim: innet.Simulation,
) -> None:
    late = [np.zeros(3) for _ in range(4)]

    async def rounds(comm: Communicator) -> list[float]:
        sums = []
        for k in (3, 4):
            array = np.full(3, 10.0**comm.rank)
            if k == 3 and comm.rank == 3:
                await asyncio.sleep(0.1)
            policy = innet.KOfN(k)
            part = await comm.iallreduce_of(array, policy, out=array, late=late[comm.rank])
            assert part.total is array
            sums.append(float(array[0]))
        return sums

    assert sim.run(*(rounds(comm) for comm in sim.group())) == [[111.0, 2111.0]] * 4
    assert not np.any(late)


def test_a_round_with_too_few_ranks_ends_before_the_deadline(sim: innet.Simulation) -> None:
    first, second, *_ = sim.group(timeout_s=2.0)

    async def alone(comm: Communicator) -> float:
        with pytest.raises(DeadlineExceeded, match=r"missing: rank 2 \(h2\), rank 3 \(h3\)"):
            await comm.iallreduce_of(np.ones(1000), innet.KOfN(3))
        return sim.now_s

    assert max(sim.run(alone(first), alone(second))) < 2.0


def test_a_round_that_lacks_a_required_rank_fails_on_all_and_the_next_is_right(
    sim: innet.Simulation,
) -> None:
    async def rounds(comm: Communicator) -> tuple[str, tuple[int, ...]]:
        if comm.rank == 2:
            await asyncio.sleep(2.5)
        with pytest.raises(DeadlineExceeded) as failed:
            await comm.iallreduce_of(np.ones(3), innet.KOfN(4))
        part = await comm.iallreduce_of(np.ones(3), innet.KOfN(4))
        return str(failed.value), part.contributors

    group = sim.group(algorithm="ring", timeout_s=2.0)
    for said, contributors in sim.run(*(rounds(comm) for comm in group)):
        assert re.match(r"allreduce_of\(.*\) seq=[0-9]+: 3 of 4 ranks called it in time", said)
        assert "round" not in said, "one number for one call"
        assert "missing: rank 2 (h2)" in said
        assert contributors == (0, 1, 2, 3)


def test_arrays_are_read_and_written_and_a_closed_group_leaves_no_state(
    sim: innet.Simulation,
) -> None:
    group = sim.group()

    async def exchange(comm: Communicator) -> tuple[int, float]:
        comm.register(f"of/{comm.rank}", np.zeros(5000))
        after, next_but_one = (comm.rank + 1) % 4, (comm.rank + 2) % 4
        await comm.iput(f"of/{after}", after, np.full(5000, float(comm.rank)), combine="sum")
        snapshot = await comm.iget(f"of/{next_but_one}", next_but_one, at_least=1)
        return snapshot.version, snapshot.array[3]

    assert sim.run(*(exchange(comm) for comm in group)) == [(1, 1.0), (1, 2.0), (1, 3.0), (1, 0.0)]
    for comm in group:
        comm.close()
    sim.run(asyncio.sleep(10))
    for node in sim.network.nodes.values():
        status = node.status()
        assert (status["endpoint"]["retained_bytes"], status["operations"]) == (0, [])


def test_a_program_on_a_paused_host_runs_until_it_needs_an_answer(
    sim: innet.Simulation,
) -> None:
    owner, other, *_ = sim.group()
    owner.register("weights", np.zeros(10))
    sim.pause("h1")
    put = other.iput("weights", 0, np.ones(10))
    sim.at(1.0, sim.resume, "h1")

    async def wait() -> int:
        return await put

    assert sim.run(wait()) == [1]
    assert sim.now_s >= 1.0


@pytest.mark.parametrize("registered", [True, False], ids=["get", "request"])
def test_a_get_from_a_process_that_dies_ends_with_the_cause(
    sim: innet.Simulation, registered: bool
) -> None:
    owner, asker, *_ = sim.group()
    if registered:
        owner.register("weights", np.zeros(1 << 20))
        sim.change_link("h1", "s0", rate_bps=1e6)
    sim.at(0.5, sim.crash, "h1")

    async def read() -> None:
        with pytest.raises(innet.errors.CollectiveError, match="h1 crashed"):
            await asker.iget("weights", 0)

    sim.run(read())
    assert sim.now_s == 0.5


def test_a_dead_process_decides_nothing(sim: innet.Simulation) -> None:
    group = sim.group()
    sim.at(0.001, sim.crash, "h0")
    sim.at(0.002, sim.restart, "h0")
    sim.at(0.5, sim.fail_worker, "h0")

    async def waits(comm: Communicator) -> float:
        await asyncio.sleep(0.01)
        with pytest.raises(RankFailed):
            await comm.iallreduce_of(np.ones(10), innet.KOfN(1))
        return sim.now_s

    async def decides(comm: Communicator) -> None:
        with pytest.raises(innet.errors.CollectiveError, match="h0 crashed"):
            await comm.iallreduce_of(np.ones(10), innet.KOfN(2))

    sim.run(decides(group[0]), *(waits(comm) for comm in group[1:]))
    assert sim.now_s == 0.5
