"""Scenarios from seeds."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import get_args

from innet.topology import Topology
from tests.swarm.network import base_topology
from tests.swarm.scenario import Call, Collective, Fault, Group, Job, LinkModel, Scenario

_TOPOLOGIES = (
    *("star:2", "star:3", "star:3", "star:4", "star:5", "star:8"),
    *("leaf-spine:2x1x2", "leaf-spine:2x2x2", "leaf-spine:3x2x2"),
    *("dumbbell:2", "dumbbell:3", "fat-tree:2", "wan:3x2x1", "wan:4x2x7"),
    *("rails:2x2", "rails:4x2", "rails:3x3"),
    *("random",) * 8,
)
_RARE_TOPOLOGIES = ("fat-tree:4", "leaf-spine:4x2x3")
_RARELY = 0.03
_ALGORITHMS = (*("inc",) * 6, *("ring",) * 3, *("ps",) * 3, *("halving-doubling",) * 2, "auto")
_DTYPES = ("float32", "float32", "float64", "float16", "int32", "int64", "uint8", "complex64")
_COLLECTIVES: tuple[Collective, ...] = (
    *("allreduce",) * 8,
    *("reduce_scatter",) * 2,
    *("allgather",) * 2,
    *("allreduce_of",) * 2,
    *(name for name in get_args(Collective) if name != "mismatch"),
)
_ELEMENTS = (0, 1, 2, 300, 300, 2_000, 5_000)
_MANY_ELEMENTS = 40_000
_LEAST_LIFETIME_HOPS = 20
"""As long as a packet takes over so many links in a row, an Interest lives at least."""
_MOST_SEGMENTS = 1_500
"""Of all calls, counted at every rank: what a run costs is proportional to it."""


def scenario_from_seed(seed: int) -> Scenario:
    """The scenario that ``seed`` stands for, always the same."""
    random_ = random.Random(seed)
    expression = _topology(random_)
    topology = base_topology(expression)
    links = _links(random_)
    troubled = random_.random() < 0.5
    jobs = _jobs(random_, topology)
    return Scenario(
        seed=seed,
        topology=expression,
        links=links,
        groups=_groups(random_, topology, links, jobs),
        jobs=jobs,
        slots=random_.choice((256, 256, 64, 8, 1, 0)),
        cache_bytes=random_.choice((64 << 20, 1 << 20, 20_000, 0)),
        timeout_s=random_.choice((30.0, 60.0)),
        settings=_settings(random_, links),
        faults=_faults(random_, topology) if troubled else (),
    )


def _topology(random_: random.Random) -> str:
    if random_.random() < _RARELY:
        return random_.choice(_RARE_TOPOLOGIES)
    expression = random_.choice(_TOPOLOGIES)
    if expression != "random":
        return expression
    hosts, switches = random_.randint(2, 7), random_.randint(1, 5)
    return f"random:{hosts}x{switches}x{random_.randint(0, 3)}x{random_.randrange(1000)}"


def _jobs(random_: random.Random, topology: Topology) -> tuple[Job, ...]:
    """None at all, one of all hosts, or two of some each."""
    hosts = list(topology.hosts)
    count = random_.choice((0, 0, 1, 2, 2))
    if count == 0:
        return ()
    if count == 1 or len(hosts) < 4:
        return (Job("a", tuple(hosts)),)
    random_.shuffle(hosts)
    cut = random_.randint(2, len(hosts) - 2)
    weight = random_.choice((1, 2, 8))
    return Job("a", tuple(hosts[:cut])), Job("b", tuple(hosts[cut:]), weight)


def _groups(
    random_: random.Random, topology: Topology, links: LinkModel, jobs: tuple[Job, ...]
) -> tuple[Group, ...]:
    groups = max(len(jobs), random_.choice((1, 1, 1, 2, 3)))
    budget = _MOST_SEGMENTS // groups
    made = []
    for number in range(groups):
        hosts = jobs[number % len(jobs)].hosts if jobs else topology.hosts
        made.append(_group(random_, topology, hosts, links, budget, signed=bool(jobs)))
    return tuple(made)


def _group(
    random_: random.Random,
    topology: Topology,
    of_job: tuple[str, ...],
    links: LinkModel,
    budget: int,
    signed: bool,
) -> Group:
    hosts = list(of_job)
    if random_.random() < 0.3 and len(hosts) > 2:
        hosts = random_.sample(hosts, random_.randint(2, len(hosts)))
    algorithm = random_.choice(_ALGORITHMS)
    if algorithm == "halving-doubling" and len(hosts) & (len(hosts) - 1):
        algorithm = "ring"
    if algorithm == "inc" and random_.random() < 0.7:
        # The best roots take long to find, and any will do.
        algorithm = f"inc:roots={random_.choice(topology.switches)}"
    calls: list[Call] = []
    for _ in range(random_.randint(1, 5)):
        call = _call(random_, len(hosts))
        if call.collective == "object" and not signed:
            call = replace(call, collective="broadcast")
        cost = _segments(call, len(hosts), links)
        if cost <= budget:
            budget -= cost
            calls.append(call)
    if not calls or random_.random() < 0.05:
        calls.append(Call("mismatch", elements=300, root=random_.randrange(len(hosts))))
    return Group(tuple(hosts), algorithm, tuple(calls))


def _segments(call: Call, size: int, links: LinkModel) -> int:
    blocks = size if call.collective in ("reduce_scatter", "scatter", "alltoall") else 1
    if call.collective in ("allgather", "gather"):
        blocks = size
    size_bytes = 8 * call.elements * blocks
    return size * (3 + size_bytes // (links.mtu_bytes - 200))


def _links(random_: random.Random) -> LinkModel:
    mtu_bytes = random_.choice((1500, 9000, 9000, 65000))
    rough = random_.random() < 0.6

    def now_and_then(value: float) -> float:
        return value if rough and random_.random() < 0.4 else 0.0

    return LinkModel(
        rate_bps=random_.choice((None, 1e7, 1e8, 1e9, 1e10)),
        delay_s=random_.choice((0.0, 1e-6, 1e-4, 5e-3)),
        queue_bytes=max(mtu_bytes, random_.choice((2, 64, 512, 512, 4096)) * 1024),
        mtu_bytes=mtu_bytes,
        loss=now_and_then(random_.choice((0.001, 0.01, 0.05, 0.3))),
        jitter_s=now_and_then(random_.choice((1e-5, 1e-3))),
        reorder=now_and_then(random_.choice((0.01, 0.2))),
        reorder_delay_s=random_.choice((1e-4, 1e-2, 1.0, 3600.0)),
        duplicate=now_and_then(random_.choice((0.01, 0.3))),
        corrupt=now_and_then(random_.choice((0.01, 0.1))),
    )


def _call(random_: random.Random, size: int) -> Call:
    spread_s = random_.choice((0.0, 1e-4, 1e-2, 1.0))
    cancelled = random_.random() < 0.05
    many = random_.random() < _RARELY
    collective = random_.choice(_COLLECTIVES)
    return Call(
        collective=collective,
        op=random_.choice(("sum", "sum", "sum", "min", "max", "prod")),
        dtype=random_.choice(_DTYPES),
        elements=_MANY_ELEMENTS if many else random_.choice(_ELEMENTS),
        root=random_.randrange(size),
        in_place=random_.random() < 0.4,
        awaited=random_.random() < 0.6,
        sleeps_s=tuple(random_.random() * spread_s for _ in range(size)),
        k=random_.randint(1, size),
        patience_s=random_.choice((0.0, 1e-3, 0.1)),
        cancelled_by=random_.randrange(size) if cancelled and collective != "one_sided" else None,
        cancelled_after_s=random_.choice((0.0, 1e-4, 1e-2)),
    )


def _settings(random_: random.Random, links: LinkModel) -> dict[str, str]:
    settings: dict[str, str] = {}
    if random_.random() < 0.3:
        settings["transport.initial_window"] = str(random_.choice((1, 2, 64)))
    if random_.random() < 0.3:
        settings["transport.max_window"] = str(random_.choice((4, 16)))
    if random_.random() < 0.2:
        settings["transport.pit_capacity"] = str(random_.choice((1024, 4096)))
    if random_.random() < 0.2:
        lifetime_s = random_.choice((0.2, 4.0))
        if lifetime_s < _LEAST_LIFETIME_HOPS * links.least_hop_s:
            lifetime_s = 4.0  # answers could not come in time on idle links
        settings["transport.interest_lifetime_s"] = str(lifetime_s)
        settings["transport.max_rto_s"] = str(lifetime_s / 2)
    if random_.random() < 0.3:
        settings["collectives.operations_in_flight"] = str(random_.choice((1, 2, 8)))
    if random_.random() < 0.8:
        # The default is large, and takes its time to be set up.
        settings["collectives.host_slots"] = str(random_.choice((64, 256)))
    return settings


def _faults(random_: random.Random, topology: Topology) -> tuple[Fault, ...]:
    faults: list[Fault] = []
    for _ in range(random_.randint(1, 4)):
        start_s = random_.random() * random_.choice((0.001, 0.01, 0.1, 2.0))
        end_s = start_s + random_.random() * random_.choice((0.01, 0.5, 5.0))
        faults += _fault(random_, topology, start_s, end_s)
    return tuple(sorted(faults, key=lambda fault: fault.time_s))


def _fault(random_: random.Random, topology: Topology, start_s: float, end_s: float) -> list[Fault]:
    kinds = ("link", "link", "switch", "switch", "pause", "clock", "burst", "partition", "host")
    kind = random_.choice(kinds)
    link = random_.choice(topology.links).nodes
    node = (random_.choice(tuple(topology.nodes)),)
    switch = (random_.choice(topology.switches),)
    match kind:
        case "link":
            return [Fault(start_s, "link_down", link), Fault(end_s, "link_up", link)]
        case "switch":
            return [Fault(start_s, "crash", switch), Fault(end_s, "restart", switch)]
        case "host":
            return _dead_host(random_, random_.choice(topology.hosts), start_s, end_s)
        case "pause":
            return [Fault(start_s, "pause", node), Fault(end_s, "resume", node)]
        case "clock":
            return [Fault(start_s, "advance_clock", node, by_s=random_.choice((0.5, 20.0)))]
        case "partition":
            return _partition(topology, switch[0], start_s, end_s)
        case _:
            bad = LinkModel(loss=0.5, corrupt=0.2, rate_bps=1e8)
            well = LinkModel()
            return [
                Fault(start_s, "link_change", link, link=bad),
                Fault(end_s, "link_change", link, link=well),
            ]


def _dead_host(random_: random.Random, host: str, start_s: float, end_s: float) -> list[Fault]:
    """Its process does not come back; most often the others hear of it soon."""
    faults = [Fault(start_s, "crash", (host,)), Fault(end_s, "restart", (host,))]
    if random_.random() < 0.9:
        known_s = start_s + random_.choice((1e-6, 1e-3, 0.1, 2.0))
        faults.append(Fault(known_s, "fail_worker", (host,)))
    return faults


def _partition(topology: Topology, switch: str, start_s: float, end_s: float) -> list[Fault]:
    """A switch and its hosts lose the rest of the network; a lone switch loses its hosts."""
    links = [link.nodes for link in topology.links if switch in link.nodes]
    between = [pair for pair in links if not set(pair) & set(topology.hosts)] or links
    down = [Fault(start_s, "link_down", pair) for pair in between]
    return down + [Fault(end_s, "link_up", pair) for pair in between]
