"""A replay block by block: what it finds where, and what links carry."""

from __future__ import annotations

import pytest

from innet.kv.prefill import PrefillCost
from innet.lab.replay.plan import Design, ReplayPlan, with_switch_memory
from innet.lab.replay.single_store import BlockStore, hit_rate
from innet.lab.traces import PromptRequest
from innet.lab.workload.document import KvSpecification
from innet.topology import load_topology
from shared.block_model import BlockModel, busiest_link
from shared.request_traces import GENERATED

TOPOLOGY = load_topology("leaf-spine:4x2x4")
HOSTS = TOPOLOGY.hosts


def plan(
    design: str, worker_blocks: int | None = None, home_blocks: int | None = None
) -> ReplayPlan:
    homes = () if design == "local" else HOSTS
    return ReplayPlan(
        design=design,
        policy="lru",
        block_bytes=1 << 20,
        replicas=1,
        window=8,
        deadline_s=1.0,
        put_timeout_s=1.0,
        time_scale=1.0,
        prefill=PrefillCost(),
        worker_blocks=worker_blocks,
        home_blocks=dict.fromkeys(homes, home_blocks),
        home_weights=dict.fromkeys(homes, 1.0),
    )


def prompt(*ids: int) -> PromptRequest:
    blocks = tuple(number.to_bytes(32, "big") for number in ids)
    return PromptRequest(0.0, 512 * len(ids), 1, blocks)


@pytest.mark.parametrize("design", ["balanced", "network", "home"])
def test_the_hits_equal_those_of_one_store_when_memory_suffices(design: str) -> None:
    requests = [prompt(1, 2, 3), prompt(1, 2, 4), prompt(5), prompt(1, 2, 3, 6)] * 5
    model = BlockModel(TOPOLOGY, plan(design), HOSTS)
    model.replay(requests)
    asked = sum(len(request.blocks) for request in requests)
    assert 1 - model.counts.computed / asked == hit_rate(requests, BlockStore(None))


def test_blocks_without_later_requests_move_only_to_their_home() -> None:
    requests = [prompt(*range(10 * n, 10 * n + 10)) for n in range(32)]
    moved = {}
    for design in ("network", "home", "local"):
        model = BlockModel(TOPOLOGY, plan(design), HOSTS)
        model.replay(requests)
        moved[design] = model.link_blocks.total()
    assert moved["network"] == moved["local"] == 0
    assert moved["home"] > 320


def test_a_hot_prompt_leaves_its_producer_once() -> None:
    model = BlockModel(TOPOLOGY, plan("network"), HOSTS)
    model.replay([prompt(1, 2, 3)] * 16)
    sent = sum(count for (source, _), count in model.link_blocks.items() if source == HOSTS[0])
    assert model.counts.computed == 3
    assert sent <= 3
    assert model.counts.switches > model.counts.homes


def test_blocks_that_the_producer_dropped_are_computed_again() -> None:
    model = BlockModel(TOPOLOGY, plan("network", worker_blocks=2, home_blocks=0), HOSTS)
    model.replay([prompt(1, 2, 3), prompt(1, 2, 3)])
    assert model.counts.computed == 6


@pytest.mark.parametrize("reuse", ["chats", "agents", "documents"])
def test_the_design_network_finds_the_blocks_of_home_with_less_traffic(reuse: str) -> None:
    requests = GENERATED[reuse](800, 1)
    asked = sum(len(request.blocks) for request in requests)
    written = KvSpecification.model_validate(
        {"kind": "kv", "trace": reuse, "block": 1 << 20, "cache": "4000blocks"}
    )
    hits, carried = {}, {}
    for design in ("network", "home"):
        planned = ReplayPlan.of(
            written, Design.parse(design), len(HOSTS), dict.fromkeys(HOSTS, 1.0), 60.0
        )
        model = BlockModel(with_switch_memory(TOPOLOGY, written, design), planned, HOSTS)
        model.replay(requests)
        hits[design] = 1 - model.counts.computed / asked
        carried[design] = busiest_link(model.link_blocks.items())[1]
    assert hits["network"] > 0.97 * hits["home"]
    assert carried["network"] < 0.9 * carried["home"]


@pytest.mark.parametrize("reuse", GENERATED)
@pytest.mark.parametrize("blocks", [1000, 4000])
def test_balanced_puts_find_the_blocks_of_home_in_small_stores(reuse: str, blocks: int) -> None:
    requests = GENERATED[reuse](800, 1)
    asked = sum(len(request.blocks) for request in requests)
    written = KvSpecification.model_validate(
        {"kind": "kv", "trace": reuse, "block": 1 << 20, "cache": f"{blocks}blocks"}
    )
    hits, carried = {}, {}
    for design in ("balanced", "home"):
        planned = ReplayPlan.of(
            written, Design.parse(design), len(HOSTS), dict.fromkeys(HOSTS, 1.0), 60.0
        )
        model = BlockModel(with_switch_memory(TOPOLOGY, written, design), planned, HOSTS)
        model.replay(requests)
        hits[design] = 1 - model.counts.computed / asked
        carried[design] = busiest_link(model.link_blocks.items())[1]
    assert hits["balanced"] > hits["home"] - 0.005
    assert carried["balanced"] < 0.9 * carried["home"]


def test_there_is_no_busiest_link_without_traffic() -> None:
    assert busiest_link([]) == ("none", 0)
