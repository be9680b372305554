"""Blocks of a tenant on nodes of innet: what comes was signed so, and nothing waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack

import numpy as np
import pytest

from innet._native import _core
from innet.errors import KVError, SimulationError
from innet.kv.names import BlockFamily, BlockKey
from innet.kv.node_network import MEMBERS_REFRESH_S, NodeBlockNetwork
from innet.kv.pool.network import Cause, Contents, Sealed
from innet.kv.pool.requests import PoolRequest, Unpin, name_of_action
from innet.kv.tenant import Tenant
from innet.lab.simulation import Simulation
from innet.lab.simulation.host import SimulatedHost
from innet.lab.simulation.jobs import SimulatedJob
from innet.lab.simulation.pools import SimulatedPools
from innet.topology import load_topology

HOSTS = ("h0", "h1", "h2")
BYTES = 20_000
TIMEOUT_S = 1.0

Networks = Mapping[str, NodeBlockNetwork]
Program = Callable[[Networks], Awaitable[None]]


@pytest.fixture
def sim() -> Iterator[Simulation]:
    topology = load_topology("star:3").with_overrides(rate_bps=1e9)
    with Simulation(topology, seed=3) as made:
        yield made


@pytest.fixture
def pools(sim: Simulation) -> SimulatedPools:
    return SimulatedPools(sim)


@pytest.fixture
def tenant(pools: SimulatedPools) -> Tenant:
    return pools.tenant("acme")


@pytest.fixture
def run(sim: Simulation, pools: SimulatedPools, tenant: Tenant) -> Callable[[Program], None]:
    """Runs a program with a network on each of :data:`HOSTS`, by host."""

    def run_program(program: Program) -> None:
        async def opened() -> None:
            async with AsyncExitStack() as stack:
                networks = {
                    host: await stack.enter_async_context(
                        pools.open(host, tenant, capacity_bytes=100 * (1 + HOSTS.index(host)))
                    )
                    for host in HOSTS
                }
                await program(networks)

        sim.run(opened())

    return run_program


def block_name(tenant: Tenant, number: int = 0) -> str:
    family = BlockFamily(tenant.component, "00ff", "bf16", 0, 8)
    return BlockKey(family, number.to_bytes(32, "big")).name


def contents(seed: int = 0, size: int = BYTES) -> Contents:
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


async def ended(host: SimulatedHost, operation: int) -> int:
    """The status that an operation of the host's node ends with."""
    status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    host.collector.deliver(operation, lambda ended_with, _detail: status.set_result(ended_with))
    return await status


def test_a_block_is_fetched_as_it_was_signed_and_passed_on_so(run, tenant):
    name = block_name(tenant)

    async def program(networks: Networks) -> None:
        published = await networks["h0"].publish(name, contents())
        first = await networks["h1"].fetch(name, "h0", TIMEOUT_S)
        assert isinstance(first, Sealed)
        assert await networks["h1"].publish_sealed(name, first)
        networks["h0"].withdraw(name)
        second = await networks["h2"].fetch(name, "h1", TIMEOUT_S)
        assert isinstance(second, Sealed)
        for block in (first, second):
            assert block.root == published.root
            assert np.array_equal(block.contents, contents())

    run(program)


def test_of_fetches_together_each_has_an_end_of_its_own(run, tenant):
    names = [block_name(tenant, number) for number in range(5)]

    async def program(networks: Networks) -> None:
        for number in (0, 1, 3, 4):
            await networks["h0"].publish(names[number], contents(number))
        ends = await networks["h1"].fetch_together(names, "h0", TIMEOUT_S)
        assert ends.pop(2) is Cause.ABSENT
        for number, end in zip((0, 1, 3, 4), ends, strict=True):
            assert isinstance(end, Sealed)
            assert np.array_equal(end.contents, contents(number))
            assert not end.contents.flags.writeable
        networks["h0"].expect(names[2])
        fetching = networks["h1"].fetch_together(names, "h0", TIMEOUT_S)
        fetching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fetching
        assert isinstance(await networks["h1"].fetch(names[0], "h0", TIMEOUT_S), Sealed)

    run(program)


def test_fetches_together_may_be_of_equal_names(run, tenant):
    numbers = (0, 1, 0, 2, 0, 2)

    async def program(networks: Networks) -> None:
        for number in (0, 1):
            await networks["h0"].publish(block_name(tenant, number), contents(number))
        names = [block_name(tenant, number) for number in numbers]
        ends = await networks["h1"].fetch_together(names, "h0", TIMEOUT_S)
        for number, end in zip(numbers, ends, strict=True):
            assert end is Cause.ABSENT if number == 2 else isinstance(end, Sealed)
            assert isinstance(end, Cause) or np.array_equal(end.contents, contents(number))

    run(program)


@pytest.mark.parametrize("cause", [Cause.LATE, Cause.UNREACHABLE])
def test_fetches_together_end_together_at_their_deadline_or_with_the_job(sim, run, tenant, cause):
    names = [block_name(tenant, number) for number in range(3)]

    async def program(networks: Networks) -> None:
        for name in names[1:]:
            networks["h0"].expect(name)
        await networks["h0"].publish(names[0], contents())
        fetching = networks["h1"].fetch_together(names, "h0", TIMEOUT_S)
        await asyncio.sleep(TIMEOUT_S / 2)
        if cause is Cause.UNREACHABLE:
            sim.host("h1").node.abort(tenant.prefix, "the job ends")
        first, *others = await fetching
        assert isinstance(first, Sealed)
        assert others == [cause, cause]

    run(program)


def test_objects_of_any_names_are_published_together(sim, run, tenant):
    below = ("a/1", "a/2", "b/2", "b/seq=3", "b/%41", "b/4", "seq=3/4", "4", "5", "b/..%2E.")
    names = [f"{tenant.prefix}/{each}" for each in below]

    async def program(networks: Networks) -> None:
        parts = [contents(number, 100) for number in range(len(names))]
        published = await networks["h0"].publish_together(names, parts)
        node = sim.host("h0").node
        assert [node.object_root(_core.Name(name)) for name in names] == [
            block.root for block in published
        ]
        networks["h0"].end_serving(names)
        assert not any(node.object_root(_core.Name(name)) for name in names)

    run(program)


@pytest.mark.parametrize("wrong", [contents()[::2], contents().astype(np.int16), "text"])
def test_only_contiguous_bytes_are_published(sim, run, tenant, wrong):
    async def program(_: Networks) -> None:
        with pytest.raises(TypeError):
            sim.host("h0").node.publish_objects(
                [block_name(tenant)], [wrong], tenant.signing_key(), 1000
            )

    run(program)


@pytest.mark.parametrize("mtu_bytes", [1500, 9000, 40_000, 65_000])
def test_a_block_fills_the_packets_that_links_have_room_for(mtu_bytes):
    size = 500_000
    with Simulation(load_topology("star:2").with_overrides(mtu_bytes=mtu_bytes), seed=1) as sim:
        pools = SimulatedPools(sim)
        tenant = pools.tenant("acme")
        name = block_name(tenant)

        async def program() -> int:
            async with (
                pools.open("h0", tenant, capacity_bytes=1) as giver,
                pools.open("h1", tenant, capacity_bytes=1) as taker,
            ):
                await giver.publish(name, contents(size=size))
                block = await taker.fetch(name, "h0", TIMEOUT_S)
                assert isinstance(block, Sealed)
                assert np.array_equal(block.contents, contents(size=size))
                return int(sim.host("h1").node.status()["endpoint"]["segments_fetched"])

        [packets] = sim.run(program())
        assert packets <= 3 + size / (mtu_bytes - 600)


def test_what_was_not_signed_so_is_not_passed_on(run, tenant):
    name, other = block_name(tenant), block_name(tenant, 1)

    async def program(networks: Networks) -> None:
        root = (await networks["h0"].publish(name, contents())).root
        forged = [
            (name, Sealed(contents(1), root)),
            (name, Sealed(contents()[:-1], root)),
            (name, Sealed(contents(), b"no manifest")),
            (other, Sealed(contents(), root)),
        ]
        for what, sealed in forged:
            assert not await networks["h1"].publish_sealed(what, sealed)
            assert await networks["h2"].probe(what, "h1", TIMEOUT_S) is not None
        assert await networks["h1"].publish_sealed(name, Sealed(contents(), root))

    run(program)


def test_a_name_stands_for_one_block(run, tenant):
    async def program(networks: Networks) -> None:
        await networks["h0"].publish(block_name(tenant), contents())
        with pytest.raises(KVError, match="published already"):
            await networks["h0"].publish(block_name(tenant), contents(1))

    run(program)


def test_blocks_published_together_are_those_published_alone(run, tenant):
    names = [block_name(tenant, number) for number in range(20)]

    async def program(networks: Networks) -> None:
        blocks = [contents(number, 1 + 5000 * number) for number in range(20)]
        together = await networks["h0"].publish_together(names, blocks)
        fetched = await networks["h1"].fetch_together(names, "h0", TIMEOUT_S)
        for name, block, own, got in zip(names, blocks, together, fetched, strict=True):
            assert isinstance(got, Sealed)
            assert np.array_equal(got.contents, block)
            alone = await networks["h2"].publish(name, block)
            assert own.root == got.root == alone.root

    run(program)


def test_a_name_that_is_taken_fails_a_group_whose_other_blocks_are_served(run, tenant):
    names = [block_name(tenant, number) for number in range(3)]

    async def program(networks: Networks) -> None:
        await networks["h0"].publish(names[1], contents(7))
        blocks = [contents(number) for number in range(3)]
        with pytest.raises(KVError, match="published already"):
            await networks["h0"].publish_together(names, blocks)
        for number, right in ((0, 0), (1, 7), (2, 2)):
            got = await networks["h1"].fetch(names[number], "h0", TIMEOUT_S)
            assert isinstance(got, Sealed)
            assert np.array_equal(got.contents, contents(right))

    run(program)


def test_what_is_not_there_is_absent_at_once(run, sim, tenant):
    async def program(networks: Networks) -> None:
        assert await networks["h1"].probe(block_name(tenant), "h0", TIMEOUT_S) is Cause.ABSENT
        assert await networks["h1"].fetch(block_name(tenant), "h0", TIMEOUT_S) is Cause.ABSENT
        await networks["h0"].publish(block_name(tenant), contents())
        assert await networks["h1"].probe(block_name(tenant), "h0", TIMEOUT_S) is None
        assert sim.now_s < TIMEOUT_S

    run(program)


@pytest.mark.parametrize("comes", [True, False])
def test_who_asks_for_what_is_expected_waits_until_it_comes_or_will_not(run, tenant, comes):
    name = block_name(tenant)

    async def program(networks: Networks) -> None:
        networks["h0"].expect(name)
        asking = asyncio.ensure_future(networks["h1"].fetch(name, "h0", TIMEOUT_S))
        assert name in await networks["h0"].next_events()
        if comes:
            await networks["h0"].publish(name, contents())
        else:
            networks["h0"].withdraw(name)
        block = await asking
        assert isinstance(block, Sealed) if comes else block is Cause.ABSENT

    run(program)


def test_a_request_reaches_its_member_and_waits_for_the_answer(run, tenant):
    block = BlockKey.parse(block_name(tenant))

    async def answer(network: NodeBlockNetwork) -> None:
        [name] = map(str, await network.next_events())
        request = PoolRequest.parse(name)
        assert (request.requester, request.action) == ("h0", Unpin(block))
        await asyncio.sleep(TIMEOUT_S / 10)
        await network.publish(name, np.frombuffer(b"{}", np.uint8))

    async def program(networks: Networks) -> None:
        answering = asyncio.create_task(answer(networks["h2"]))
        answered = await networks["h0"].request("h2", name_of_action(Unpin(block)), TIMEOUT_S)
        assert isinstance(answered, Sealed)
        assert bytes(answered.contents) == b"{}"
        await answering

    run(program)


def test_a_member_that_does_not_answer_is_late_and_a_member_no_longer(run, sim, tenant):
    async def program(networks: Networks) -> None:
        await asyncio.sleep(MEMBERS_REFRESH_S)
        assert networks["h0"].members() == {"h0": 100, "h1": 200, "h2": 300}
        sim.crash("h1")
        end = await networks["h0"].fetch(block_name(tenant), "h1", TIMEOUT_S)
        assert end in (Cause.LATE, Cause.UNREACHABLE)
        await asyncio.sleep(MEMBERS_REFRESH_S)
        assert networks["h0"].members() == {"h0": 100, "h2": 300}
        end = await networks["h1"].fetch(block_name(tenant), "h0", TIMEOUT_S)
        assert end is Cause.UNREACHABLE, "it has crashed itself"
        with pytest.raises(KVError, match="serves no blocks"):
            await networks["h1"].publish(block_name(tenant), contents())

    run(program)


def test_a_closed_network_says_so(run, tenant):
    async def program(networks: Networks) -> None:
        asked = asyncio.create_task(networks["h0"].next_events())
        await asyncio.sleep(0)
        await networks["h0"].stop()
        with pytest.raises(KVError, match="closed"):
            await asked
        with pytest.raises(KVError, match="closed"):
            await networks["h0"].publish(block_name(tenant), contents())
        networks["h0"].withdraw(block_name(tenant))

    run(program)


def test_another_tenants_key_signs_nothing_of_ours(run, sim, pools, tenant):
    name = block_name(tenant)
    stranger = pools.tenant("stranger")

    async def program(networks: Networks) -> None:
        # As whoever has broken into a member's node would: with a key that it says is the tenant's.
        key = _core.SigningKey("ed25519", tenant.key_name, bytes.fromhex(stranger.key.secret))
        poisoned = sim.host("h0")
        operation = poisoned.node.publish_object(_core.Name(name), contents(), key, 1000)
        assert await ended(poisoned, operation) == _core.STATUS_DONE
        assert isinstance(await networks["h1"].fetch(name, "h0", TIMEOUT_S), Cause)

    run(program)


def test_who_is_not_in_the_pool_is_refused_by_the_switch():
    jobs = [SimulatedJob("a", ("h0", "h1")), SimulatedJob("b", ("h2",))]
    with Simulation(load_topology("star:3"), seed=3, jobs=jobs) as sim:
        pools = SimulatedPools(sim)
        tenant = pools.tenant("acme")
        name = block_name(tenant)

        async def program() -> None:
            async with pools.open("h0", tenant) as first, pools.open("h1", tenant) as second:
                await first.publish(name, contents())
                assert isinstance(await second.fetch(name, "h0", TIMEOUT_S), Sealed)
                began_s = sim.now_s
                outsider = sim.host("h2")
                operation = outsider.node.fetch_object(
                    _core.Name(name),
                    _core.Name("/n/h0"),
                    _core.Name(tenant.key_name),
                    _core.ObjectBuffer(),
                    TIMEOUT_S,
                )
                assert await ended(outsider, operation) == _core.STATUS_NO_ROUTE
                assert sim.now_s - began_s <= TIMEOUT_S

        sim.run(program())
        counted = sim.network.nodes["s0"].status()["node"]
        assert counted["forbidden_interests"] > 0


def test_who_has_left_the_pool_is_refused():
    with Simulation(load_topology("star:2"), seed=3, jobs=[SimulatedJob("a", ("h0", "h1"))]) as sim:
        pools = SimulatedPools(sim)
        tenant = pools.tenant("acme")

        async def program() -> None:
            async with pools.open("h0", tenant) as staying:
                async with pools.open("h1", tenant) as leaving:
                    await leaving.publish(block_name(tenant), contents())
                absence = await staying.probe(block_name(tenant), "h1", TIMEOUT_S)
                assert absence not in (None, Cause.ABSENT)
                operation = sim.host("h1").node.fetch_object(
                    _core.Name(block_name(tenant)),
                    _core.Name("/n/h0"),
                    _core.Name(tenant.key_name),
                    _core.ObjectBuffer(),
                    TIMEOUT_S,
                )
                assert await ended(sim.host("h1"), operation) == _core.STATUS_NO_ROUTE

        sim.run(program())


def test_a_host_is_in_a_pool_once_and_a_crashed_one_in_none(sim, pools, tenant):
    async def program() -> None:
        async with pools.open("h0", tenant):
            with pytest.raises(SimulationError, match="in the pool already"):
                async with pools.open("h0", tenant):
                    pass
        sim.crash("h1")
        with pytest.raises(SimulationError, match="has crashed"):
            async with pools.open("h1", tenant):
                pass

    sim.run(program())


def test_switches_and_hosts_that_start_again_carry_blocks_again(run, sim, pools, tenant):
    name = block_name(tenant)

    async def program(networks: Networks) -> None:
        await networks["h0"].publish(name, contents())
        for node in ("s0", "h1"):
            sim.crash(node)
            sim.restart(node)
        await networks["h1"].stop()
        async with pools.open("h1", tenant) as again:
            assert isinstance(await again.fetch(name, "h0", TIMEOUT_S), Sealed)

    run(program)


def test_a_buffer_is_for_one_object_and_served_when_that_is_whole(sim, tenant):
    node = sim.host("h0").node
    names = (block_name(tenant), "/n/h1", tenant.key_name)
    buffer = _core.ObjectBuffer()
    node.fetch_object(*map(_core.Name, names), buffer, TIMEOUT_S)
    with pytest.raises(ValueError, match="one for each object"):
        node.fetch_object(*map(_core.Name, names), buffer, TIMEOUT_S)
    with pytest.raises(ValueError, match="no whole object"):
        node.publish_fetched_object(_core.Name(names[0]), buffer, 8192)
