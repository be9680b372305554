"""Many hosts at once: no method asks for more than a host's link and its queue hold."""

from __future__ import annotations

import asyncio

import pytest

import innet
from innet.cluster.emulation.segmentation import segment_bytes
from innet.collectives import Communicator
from innet.lab.compare.measurement import Machine
from innet.lab.compare.summary import summary_sentences
from innet.lab.experiment.outcome import outcome
from innet.lab.experiment.sweep import RunOptions, make_tasks, sweep
from innet.lab.workload import load_workload
from innet.node.node_config import Mode
from innet.plans import bound_s
from innet.plans.completion import completion_bound_s
from innet.settings import Settings
from innet.topology import Topology, load_topology
from innet.topology.credit import receive_credit_bytes

STAR = load_topology("star:32").with_overrides(rate_bps=1e9)


@pytest.mark.parametrize("algorithm", ["inc", "ring", "halving-doubling", "ps"])
def test_methods_on_many_hosts_take_little_more_than_their_bound(algorithm: str) -> None:
    assert _time_over_bound(STAR, algorithm, "512KiB") < 1.15


@pytest.mark.parametrize("algorithm", ["inc", "ring"])
@pytest.mark.parametrize(
    "topology",
    [
        pytest.param(load_topology("rails:8x2"), id="rails"),
        pytest.param(load_topology("star:4").with_workers(2, memory_rate_bps=5e8), id="pcie"),
    ],
)
def test_no_link_of_a_host_receives_more_than_its_queue_holds(
    topology: Topology, algorithm: str
) -> None:
    assert _time_over_bound(topology.with_overrides(rate_bps=1e9), algorithm, "1MiB") < 1.15


@pytest.mark.parametrize(
    ("name", "rate_bps", "kibibytes"),
    [
        ("star:8", 1e9, 64),
        ("star:8", 100e9, 64),
        pytest.param("star:8", 100e9, 1024, id="trains-of-segments"),
        pytest.param("leaf-spine:2x2x4", 100e9, 1024, id="trains-over-long-paths"),
    ],
)
def test_links_are_not_idle_while_a_sum_is_fetched(
    name: str, rate_bps: float, kibibytes: int
) -> None:
    topology = load_topology(name).with_overrides(rate_bps=rate_bps, delay_s=1e-6)
    with innet.Simulation(topology) as sim:
        assert _run_over_bound(sim, "inc", kibibytes << 10) < 1.15


@pytest.mark.parametrize(
    ("name", "rate_bps", "kibibytes"),
    [
        ("star:8", 1e9, 64),
        ("leaf-spine:2x2x4", 1e9, 64),
        ("leaf-spine:2x2x4", 100e9, 256),
        ("fat-tree:4", 1e9, 256),
        pytest.param("fat-tree:4", 100e9, 64, id="the-way-of-requests-counts"),
        pytest.param("star:32", 100e9, 1024, id="own-sums-out-of-order"),
        pytest.param("leaf-spine:8x4x8", 1e9, 256, id="results-while-others-are-added"),
        pytest.param("leaf-spine:8x4x8", 1e9, 1024, id="sums-in-the-order-of-requests"),
    ],
)
def test_steps_with_few_segments_do_not_wait_for_requests(
    name: str, rate_bps: float, kibibytes: int
) -> None:
    topology = load_topology(name).with_overrides(rate_bps=rate_bps, delay_s=1e-6)
    with innet.Simulation(topology) as sim:
        assert _run_over_bound(sim, "halving-doubling", kibibytes << 10) < 1.15
        assert _repeated(sim) == 0


def test_a_simulated_ring_of_many_hosts_is_not_marked_as_overload() -> None:
    workload = load_workload("allreduce:64KiB")
    tasks = make_tasks(STAR, workload, algorithms=["ring"])
    runs = sweep(tasks, processes=1, progress=lambda _: None)
    result = outcome(STAR, workload.name, Settings(), Machine.here(), runs)
    (ring,) = result.measurements
    assert ring.bound_s is not None
    assert ring.median_s > 3 * ring.bound_s
    assert ring.ratio_to_bound is not None
    assert ring.ratio_to_bound < 1.15
    assert not any(line.startswith("Warning") for line in summary_sentences(result))


@pytest.mark.parametrize(
    ("name", "mebibytes"),
    [("leaf-spine:8x4x8", 4), pytest.param("leaf-spine:2x2x8", 6, id="links-that-hosts-share")],
)
def test_sums_leave_room_for_contributions_and_results(name: str, mebibytes: int) -> None:
    topology = load_topology(name).with_overrides(rate_bps=100e9, delay_s=1e-6)
    with innet.Simulation(topology) as sim:
        assert _run_over_bound(sim, "halving-doubling", mebibytes << 20) < 1.15
        links = sim.network.link_counters().values()
        assert sum(link["dropped_queue"] for link in links) == 0


@pytest.mark.parametrize("operation", ["reduce_scatter", "scatter"])
def test_ranks_that_fetch_blocks_of_one_node_share_its_queue(operation: str) -> None:
    with innet.Simulation(load_topology("star:16").with_overrides(rate_bps=1e9)) as sim:
        group = sim.group()

        async def program(communicator: Communicator) -> None:
            blocks = sim.array(2 << 20).reshape(len(group), -1)
            if operation == "reduce_scatter":
                await communicator.ireduce_scatter(blocks)
            else:
                sent = blocks if communicator.rank == 0 else None
                await communicator.iscatter(sent, out=blocks[:1])

        sim.run(*map(program, group))
        links = sim.network.link_counters().values()
        assert sum(link["dropped_queue"] for link in links) == 0
        assert sim.now_s < 1.1 * (2 << 20) * 8 / 1e9


@pytest.mark.parametrize("algorithm", ["inc", "ring", "halving-doubling", "ps"])
def test_ranks_that_are_late_one_after_the_other_overflow_no_queue(algorithm: str) -> None:
    # What DistributedDataParallel does in each step: a small sum and a large one at once, called by
    # each rank when it is ready. The kernel's queues mark nothing.
    topology = load_topology("star:8").with_overrides(rate_bps=200e6)
    sizes_bytes = (200 << 10, 1 << 20)
    steps, skew_s = 4, 0.004
    with innet.Simulation(topology, like="netns") as sim:
        group = sim.group(algorithm=algorithm)

        async def program(communicator: Communicator) -> None:
            arrays = [sim.array(size_bytes) for size_bytes in sizes_bytes]
            for _ in range(steps):
                await asyncio.sleep(skew_s * (communicator.rank % 4))
                for work in [communicator.iallreduce(array, out=array) for array in arrays]:
                    await work

        sim.run(*map(program, group))
        links = sim.network.link_counters().values()
        assert sum(link["dropped_queue"] for link in links) == 0
        size_bytes = sum(sizes_bytes)
        bound = bound_s(group[0].plan_for(size_bytes), topology, size_bytes)
        assert sim.now_s < steps * (1.15 * bound + 4 * skew_s)


def test_lost_answers_of_a_late_rank_are_soon_requested_again() -> None:
    topology = load_topology("star:2").with_overrides(rate_bps=200e6)
    late_s = 1.01
    with innet.Simulation(topology, seed=2) as sim:
        group = sim.group()

        async def program(communicator: Communicator) -> None:
            array = sim.array(20_000)
            await communicator.ibroadcast(array, root=0)
            await asyncio.sleep((late_s if communicator.rank == 0 else 1.0) - sim.now_s)
            await communicator.ibroadcast(array, root=0)

        sim.at(late_s - 0.005, lambda: sim.change_link("s0", "h1", loss=0.99))
        sim.at(late_s + 0.005, lambda: sim.reset_link("s0", "h1"))
        sim.run(*map(program, group))
        assert sim.now_s < late_s + 0.2


def test_a_ring_starts_no_more_sums_than_its_switch_has_room_for() -> None:
    topology = load_topology("star:16").with_overrides(rate_bps=10e9, delay_s=1e-6)
    settings = Settings().with_assignments(["transport.pit_capacity=4096"])
    assert _time_over_bound(topology, "ring", "4MiB", settings) < 1.15


def _time_over_bound(
    topology: Topology, algorithm: str, size: str, settings: Settings | None = None
) -> float:
    """The worst of several operations, none of which may drop a packet."""
    settings = settings or Settings()
    workload = load_workload(f"allreduce:{size}")
    tasks = make_tasks(topology, workload, algorithms=[algorithm], options=RunOptions(settings))
    runs = sweep(tasks, processes=1, progress=lambda _: None)
    (result,) = outcome(topology, workload.name, settings, Machine.here(), runs).measurements
    assert result.bound_s is not None
    assert result.drops == 0
    return max(result.samples_s) / result.bound_s


def test_the_credit_is_the_path_plus_the_unmarked_part_of_the_queue() -> None:
    star = load_topology("star:4").with_overrides(
        rate_bps=1e9, delay_s=1e-3, queue_bytes=400_000, mark_bytes=100_000
    )
    round_trip_bytes = 4 * 1e-3 * 1e9 / 8
    on_two_links_bytes = 2 * star.links[0].mtu_bytes
    assert receive_credit_bytes(star, "h0") == round_trip_bytes + on_two_links_bytes + 100_000


def test_a_host_on_a_link_without_a_rate_has_no_limit() -> None:
    assert receive_credit_bytes(load_topology("star:4").with_overrides(rate_bps=None), "h0") == 0


@pytest.mark.parametrize("like", ["local", "netns"])
@pytest.mark.parametrize("algorithm", ["ring", "halving-doubling", "ps"])
@pytest.mark.parametrize(
    ("name", "rate_bps", "mebibytes"), [("star:2", 1e6, 4), ("star:8", 1e6, 1), ("star:8", 2e8, 4)]
)
def test_late_segments_are_rarely_requested_again(
    name: str, rate_bps: float, mebibytes: int, algorithm: str, like: Mode
) -> None:
    # Answers wait in queues, or for other sums, for much longer than a round trip without load.
    topology = load_topology(name).with_overrides(rate_bps=rate_bps)
    size_bytes = mebibytes << 20
    with innet.Simulation(topology, like=like) as sim:
        group = sim.group(algorithm=algorithm)

        async def program(communicator: Communicator) -> None:
            array = sim.array(size_bytes)
            await communicator.iallreduce(array, out=array)

        sim.run(*map(program, group))
        assert sim.now_s < 1.15 * bound_s(group[0].plan_for(size_bytes), topology, size_bytes)
        links = sim.network.link_counters().values()
        assert sum(link["dropped_queue"] for link in links) == 0
        nodes = [node.status() for node in sim.network.nodes.values()]
        requested = sum(face["interests_out"] for node in nodes for face in node["links"])
        assert _repeated(sim) < 0.02 * requested


def _repeated(sim: innet.Simulation) -> int:
    """Requests that were taken for lost."""
    nodes = [node.status() for node in sim.network.nodes.values()]
    causes = ("retransmissions_by_gap", "retransmissions_by_timeout")
    by_hosts: int = sum(node["endpoint"][cause] for node in nodes for cause in causes)
    by_reducers: int = sum(node["reducer"]["operand_retransmissions"] for node in nodes)
    return by_hosts + by_reducers


def _run_over_bound(sim: innet.Simulation, algorithm: str, size_bytes: int) -> float:
    """The time of one allreduce over its bound with latency."""
    group = sim.group(algorithm=algorithm)

    async def program(communicator: Communicator) -> None:
        array = sim.array(size_bytes)
        await communicator.iallreduce(array, out=array)

    sim.run(*map(program, group))
    plan, segment = group[0].plan_for(size_bytes), segment_bytes(sim.topology)
    return sim.now_s / completion_bound_s(plan, sim.topology, size_bytes, segment)
