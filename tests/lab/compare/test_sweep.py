"""Whole comparisons on small networks: innet's methods, Gloo, Open MPI, and one that fails."""

from __future__ import annotations

import os
import signal

import pytest

from innet.errors import EmulationError, PlanError
from innet.lab.compare import launchers, sweep
from innet.lab.compare.measurement import Comparison
from innet.lab.compare.recording import ComparisonRecorder
from innet.lab.compare.sweep import Schedule, compare, describe_links
from innet.node.node_config import Mode
from innet.topology import Topology, load_topology

SIZES_BYTES = (4096, 4 << 20)
SCHEDULE = Schedule(sizes_bytes=SIZES_BYTES, repetitions=2)


def star(hosts: int, rate_bps: float | None = 500e6) -> Topology:
    return load_topology(f"star:{hosts}").with_overrides(rate_bps=rate_bps)


def quiet(_label: str, _line: str) -> None:
    """Drops what workers print."""


def skip_without(baseline: str, obstacle: str | None, mode: Mode = "netns") -> None:
    reason = obstacle or launchers.missing_requirement(baseline, mode)
    if reason is not None:
        pytest.skip(reason)


def check_complete(comparison: Comparison, methods: tuple[str, ...]) -> None:
    assert comparison.failures == []
    for method in methods:
        for size_bytes in SIZES_BYTES:
            m = comparison.measurement(method, size_bytes)
            assert m is not None
            assert m.correct
            assert m.machine_cpu_s
            assert (m.packets > 0) == (method in ("inc", "ring"))
            assert m.bound_s is not None
            busiest = m.busiest_link
            assert busiest is not None
            # Whatever the algorithm, each host must at least receive the result.
            assert busiest.bytes_per_operation >= size_bytes
            assert len(m.links) == 2 * comparison.hosts


async def test_innets_methods_are_compared_and_recorded_on_loopback() -> None:
    methods = ("inc", "ring")
    recorder = ComparisonRecorder(star(2), "local")
    comparison = await compare(
        star(2), mode="local", algorithms=methods, schedule=SCHEDULE, output=quiet,
        recorder=recorder,
    )  # fmt: skip
    check_complete(comparison, methods)
    assert comparison.versions.keys() == {"innet"}
    lines = recorder.recording().lines
    assert [line.event.message for line in lines if line.event is not None] == [
        "in-network aggregation, 4 KiB", "ring (innet), 4 KiB",
        "in-network aggregation, 4 MiB", "ring (innet), 4 MiB",
    ]  # fmt: skip
    busiest = max(bps or 0 for line in lines if line.frame for bps in line.frame.links.bps)
    assert busiest > 50e6


@pytest.mark.netns
@pytest.mark.torch
async def test_gloo_runs_over_the_same_links_as_innet(netns_obstacle: str | None) -> None:
    skip_without("gloo", netns_obstacle)
    comparison = await compare(
        star(2), mode="netns", algorithms=("inc",), baselines=("gloo",),
        schedule=SCHEDULE, output=quiet,
    )  # fmt: skip
    check_complete(comparison, ("inc", "gloo"))


@pytest.mark.jobs
@pytest.mark.netns
@pytest.mark.torch
async def test_all_ranks_push_to_the_first_host(netns_obstacle: str | None) -> None:
    skip_without("gloo-push", netns_obstacle)
    comparison = await compare(
        star(4), mode="netns", algorithms=(), baselines=("gloo-push",),
        schedule=SCHEDULE, output=quiet,
    )  # fmt: skip
    check_complete(comparison, ("gloo-push",))
    push = comparison.measurement("gloo-push", SIZES_BYTES[-1])
    assert push is not None
    busiest = push.busiest_link
    assert busiest is not None
    assert "h0" in (busiest.source, busiest.destination)
    assert busiest.bytes_per_operation >= 3 * SIZES_BYTES[-1]


@pytest.mark.netns
async def test_open_mpi_runs_over_the_same_links(netns_obstacle: str | None) -> None:
    skip_without("openmpi", netns_obstacle)
    comparison = await compare(
        star(2), mode="netns", algorithms=(), baselines=("openmpi",),
        schedule=SCHEDULE, output=quiet,
    )  # fmt: skip
    check_complete(comparison, ("openmpi",))


@pytest.mark.torch
@pytest.mark.parametrize("baseline", ["gloo", "openmpi", "openmpi-shared"])
async def test_foreign_programs_run_over_loopback_or_shared_memory(baseline: str) -> None:
    skip_without(baseline, None, "local")
    comparison = await compare(
        star(2, None), mode="local", algorithms=(), baselines=(baseline,),
        schedule=SCHEDULE, output=quiet,
    )  # fmt: skip
    assert comparison.failures == []
    assert [m.correct for m in comparison.measurements] == [True] * len(SIZES_BYTES)


@pytest.mark.jobs
async def test_a_failed_method_is_omitted_and_the_others_continue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take_turn = sweep._Sweep._take_turn

    async def killing(self: sweep._Sweep, method: object, *rest: object) -> object:
        if getattr(method, "name", "") == "ring":
            session = self._teams._session
            assert session is not None
            await self._teams.team("innet")
            hosts = session.topology.hosts
            worker = next(
                p
                for p in session.network.processes.processes
                if p.spec.node == hosts[2] and p.returncode is None
            )
            os.kill(worker.identity.pid, signal.SIGKILL)
        return await take_turn(self, method, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(sweep._Sweep, "_take_turn", killing)
    comparison = await compare(
        star(3), mode="local", algorithms=("ring", "inc"), schedule=SCHEDULE, output=quiet
    )
    check_complete(comparison.model_copy(update={"failures": []}), ("inc",))
    (failure,) = comparison.failures
    assert failure.method == "ring"
    assert "SIGKILL" in failure.reason, "the reason is what ended the worker"


async def test_invalid_options_are_refused_before_anything_is_launched() -> None:
    with pytest.raises(PlanError, match="'magic'"):
        await compare(star(3), algorithms=("magic",))
    with pytest.raises(EmulationError, match="netns mode"):
        await compare(star(3), mode="local", algorithms=(), baselines=("gloo",))


def test_links_are_described_by_their_properties() -> None:
    star = load_topology("star8").with_overrides(rate_bps=200e6, loss=0.01, delay_s=1e-3)
    assert describe_links(star) == "8 links of 200 Mbit/s, 1 ms delay, 1.00% loss"
