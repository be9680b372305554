"""Replays of requests: where their blocks are found, whatever happens to the network."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from innet.errors import WorkloadError
from innet.lab.compare.measurement import BlockPlaces, Comparison, Machine
from innet.lab.compare.report import columns_of, render_report, table_cells
from innet.lab.experiment.outcome import outcome
from innet.lab.experiment.run import RunResult, run_task
from innet.lab.experiment.sweep import make_tasks, sweep
from innet.lab.replay.plan import DESIGNS
from innet.lab.replay.single_store import BlockStore, hit_rate
from innet.lab.traces import load_trace
from innet.lab.workload import Workload, load_workload, parse_workload
from innet.lab.workload.model import KvJob
from innet.settings import Settings
from innet.topology import Topology, load_topology

BLOCK_TOKENS = 512
BLOCK_BYTES = 1 << 16

Prompts = list[tuple[int, list[int]]]
"""Arrival in ms, and the ids of the blocks."""


def write_trace(path: Path, prompts: Prompts) -> Path:
    lines = [
        {
            "timestamp": at_ms,
            "input_length": BLOCK_TOKENS * len(ids),
            "output_length": 1,
            "hash_ids": ids,
        }
        for at_ms, ids in prompts
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


@pytest.fixture
def topology() -> Topology:
    return load_topology("leaf-spine:2x1x2").with_overrides(rate_bps=1e9, mtu_bytes=9000)


def workload_of(path: Path, options: str = "") -> Workload:
    return load_workload(f"kv:{path},block=64KiB{options}")


def run(topology: Topology, workload: Workload, design: str) -> RunResult:
    (task,) = make_tasks(topology, workload, algorithms=[design])
    return run_task(task)


def blocks_of(result: RunResult) -> BlockPlaces:
    (job,) = result.jobs
    assert job.failure is None
    assert job.blocks is not None
    return job.blocks


def test_a_block_is_found_at_its_home_or_in_a_cache_or_computed_again(
    topology: Topology, tmp_path: Path
) -> None:
    # One worker after the other asks for the same prompt; none has memory of its own.
    prompts = [(5000 * number, [7, 8, 9]) for number in range(4)]
    path = write_trace(tmp_path / "t.jsonl", prompts)
    found = {
        design: blocks_of(run(topology, workload_of(path, ",worker-share=0"), design))
        for design in DESIGNS
    }
    network, home, local = found["network"], found["home"], found["local"]
    assert network.computed == home.computed == 3
    assert network.local + network.switches + network.homes == 9
    assert network.switches > 0
    assert sum(network.by_switch.values()) == pytest.approx(network.switches)
    assert (home.switches, home.local + home.homes) == (0, 9)
    assert home.puts == 3
    assert (local.computed, local.puts) == (12, 0)


@pytest.mark.parametrize("design", ["balanced", "network", "home"])
def test_the_hits_equal_those_of_one_store_when_memory_suffices(
    topology: Topology, tmp_path: Path, design: str
) -> None:
    source = random.Random(5)
    prompts = []
    for number in range(12):
        length = source.randrange(1, 6)
        # Blocks are numbered by their prefixes: the same choices give the same ids.
        choices = "".join(str(source.randrange(2)) for _ in range(length))
        ids = [int("1" + choices[: depth + 1]) for depth in range(length)]
        prompts.append((5000 * number, ids))
    path = write_trace(tmp_path / "t.jsonl", prompts)
    blocks = blocks_of(run(topology, workload_of(path), design))
    asked = blocks.local + blocks.switches + blocks.homes + blocks.computed
    reference = hit_rate(load_trace(path, path.read_text()), BlockStore(None))
    assert 1 - blocks.computed / asked == pytest.approx(reference)


def test_a_hot_prefix_crosses_its_homes_link_about_once(tmp_path: Path) -> None:
    topology = load_topology("star:8").with_overrides(rate_bps=1e9, mtu_bytes=9000)
    ids = [3, 4, 5, 6]
    prompts = [(0, ids)] + [(60_000, ids)] * 7
    path = write_trace(tmp_path / "t.jsonl", prompts)
    text = (
        f"name: hot\njobs: {{serving: {{kind: kv, trace: {path.name}, block: 64KiB, "
        "worker-share: 0, homes: {h0: 1}}}"
    )
    result = run(topology, parse_workload(text, tmp_path / "w.yaml"), "network")
    (from_home,) = (
        link for link in result.links if (link.source, link.destination) == ("h0", "s0")
    )
    assert blocks_of(result).computed == len(ids)
    assert from_home.bytes_per_operation < 1.3 * len(ids) * BLOCK_BYTES


def test_a_hot_prompt_leaves_its_producer_once_for_fifteen_requesters(
    tmp_path: Path,
) -> None:
    topology = load_topology("leaf-spine:4x2x4").with_overrides(rate_bps=10e9, mtu_bytes=65000)
    ids = [3, 4, 5, 6]
    path = write_trace(tmp_path / "t.jsonl", [(0, ids)] + [(60_000, ids)] * 15)
    result = run(topology, workload_of(path), "network")
    producer = topology.hosts[0]
    sent_bytes = sum(link.bytes_per_operation for link in result.links if link.source == producer)
    blocks = blocks_of(result)
    assert (blocks.computed, blocks.late) == (len(ids), 0)
    assert sent_bytes < 1.1 * len(ids) * BLOCK_BYTES


def test_packets_that_a_full_queue_drops_are_fetched_again(tmp_path: Path) -> None:
    # Eight homes ask one producer at once for more than its link's queue takes.
    topology = load_topology("leaf-spine:4x2x4").with_overrides(rate_bps=10e9, mtu_bytes=65000)
    ids = list(range(8))
    path = write_trace(tmp_path / "t.jsonl", [(0, ids), (60_000, ids)])
    result = run(topology, load_workload(f"kv:{path},block=2MiB"), "network")
    assert sum(link.drops for link in result.links) > 0
    assert blocks_of(result).computed == len(ids)


def test_a_home_that_dies_costs_misses_until_it_is_back(tmp_path: Path) -> None:
    topology = load_topology("star:4").with_overrides(rate_bps=1e9, mtu_bytes=9000)
    prompts = [(3000 * number, [1, 2, 3, 4, 5, 6]) for number in range(8)]
    path = write_trace(tmp_path / "t.jsonl", prompts)

    def blocks_after(requests: int) -> BlockPlaces:
        text = (
            f"name: death\njobs: {{serving: {{kind: kv, trace: {path.name}, block: 64KiB, "
            f"requests: {requests}, worker-share: 0, deadline: 200ms, hosts: [h0, h1], "
            "homes: {h2: 1, h3: 1}}}\n"
            "events: [{kind: crash, node: h2, at: 8s, for: 6s}]"
        )
        result = run(topology, parse_workload(text, tmp_path / "w.yaml"), "home")
        assert result.operations == len(result.jobs[0].spans_s) == requests
        return blocks_of(result)

    before, back, end = (blocks_after(requests) for requests in (3, 6, 8))
    assert before.computed == 6
    assert back.computed > before.computed
    assert end.computed == back.computed  # what came to the home again is found there


@pytest.mark.parametrize(
    "event",
    [
        "{kind: crash, node: h1, at: 3s}",
        "{kind: crash, node: s0, at: 3s}",
        "{kind: crash, node: any host, rate: 1, for: 500ms}",
        "{kind: pause, node: h1, at: 2s, for: 2s}",
        "{kind: link-change, link: any link, at: 1s, to: {loss: 20%}}",
    ],
)
def test_all_requests_are_answered_whatever_happens(tmp_path: Path, event: str) -> None:
    topology = load_topology("star:4").with_overrides(rate_bps=1e9, mtu_bytes=9000)
    prompts = [(500 * n, [1, 2, 3] if n % 2 else [1, 2, 10 * n]) for n in range(14)]
    path = write_trace(tmp_path / "t.jsonl", prompts)
    text = (
        f"name: bad-day\njobs: {{serving: {{kind: kv, trace: {path.name}, block: 64KiB, "
        f"deadline: 100ms, replicas: 2, timeout: 1s}}}}\nevents: [{event}]"
    )
    result = run(topology, parse_workload(text, tmp_path / "w.yaml"), "network")
    blocks = blocks_of(result)
    assert len(result.jobs[0].spans_s) == len(prompts)
    assert blocks.local + blocks.switches + blocks.homes + blocks.computed == 3 * len(prompts)


def test_a_worker_without_a_node_computes_everything(tmp_path: Path) -> None:
    topology = load_topology("star:2").with_overrides(rate_bps=1e9, mtu_bytes=9000)
    path = write_trace(tmp_path / "t.jsonl", [(2000 * number, [1, 2]) for number in range(4)])
    text = (
        f"name: death\njobs: {{serving: {{kind: kv, trace: {path.name}, hosts: [h0]}}}}\n"
        "events: [{kind: crash, node: h0, at: 3s}]"
    )
    blocks = blocks_of(run(topology, parse_workload(text, tmp_path / "w.yaml"), "local"))
    assert (blocks.local, blocks.computed) == (2, 6)


def test_late_blocks_are_computed(topology: Topology, tmp_path: Path) -> None:
    prompts = [(0, [1, 2]), (20_000, [1, 2]), (40_000, [1, 2])]
    path = write_trace(tmp_path / "t.jsonl", prompts)
    slow = topology.with_overrides(rate_bps=1e6)
    blocks = blocks_of(run(slow, workload_of(path, ",worker-share=0,deadline=50ms"), "home"))
    assert blocks.late > 0
    assert blocks.computed == 6 - blocks.local


def test_the_time_to_the_first_token_follows_the_stated_model(
    topology: Topology, tmp_path: Path
) -> None:
    # Three prompts at once on one worker: they are computed one after the other.
    path = write_trace(tmp_path / "t.jsonl", [(0, [1]), (0, [2]), (0, [3])])
    text = (
        f"name: w\njobs: {{s: {{kind: kv, trace: {path.name}, block: 64KiB, hosts: [h0], "
        "prefill: {token: 1ms, pair: 0s, start: 88ms}}}"
    )
    (job,) = run(topology, parse_workload(text, tmp_path / "w.yaml"), "local").jobs
    assert [end - begin for begin, end in job.spans_s] == pytest.approx([0.6, 1.2, 1.8])


def test_a_prefix_is_looked_up_when_its_request_is_scheduled(
    topology: Topology, tmp_path: Path
) -> None:
    # All arrive at once. On h0, the same prompt follows; on h1, it follows another one.
    path = write_trace(
        tmp_path / "t.jsonl", [(0, [1, 2]), (0, [5, 6, 7]), (0, [1, 2]), (0, [1, 2])]
    )
    text = (
        f"name: w\njobs: {{s: {{kind: kv, trace: {path.name}, block: 64KiB, hosts: [h0, h1], "
        "prefill: {token: 1ms, pair: 0s, start: 5ms}}}"
    )
    workload = parse_workload(text, tmp_path / "w.yaml")
    assert blocks_of(run(topology, workload, "network")).computed == 5
    assert blocks_of(run(topology, workload, "local")).computed == 7


def test_the_same_seed_gives_the_same_replay(topology: Topology, tmp_path: Path) -> None:
    path = write_trace(tmp_path / "t.jsonl", [(n, [n % 3, 5 + n]) for n in range(6)])
    one, other = (run(topology, workload_of(path), "network") for _ in range(2))
    assert one.jobs == other.jobs
    assert [link.bytes_per_operation for link in one.links] == [
        link.bytes_per_operation for link in other.links
    ]


def test_the_table_and_the_page_show_where_blocks_were_found(
    topology: Topology, tmp_path: Path
) -> None:
    path = write_trace(tmp_path / "t.jsonl", [(3000 * n, [1, 2]) for n in range(3)])
    tasks = make_tasks(
        topology, workload_of(path), algorithms=list(DESIGNS), sizes_bytes=[1 << 20, 1 << 22]
    )
    runs = sweep(tasks, processes=1, progress=lambda _standing: None)
    comparison = outcome(topology, "kv", Settings(), Machine.here(), runs)
    comparison.save(tmp_path / "c.json")
    assert Comparison.load(tmp_path / "c.json").is_replay
    assert {"hits", "one store", "Belady", "ideal", "switches", "homes", "median"} <= set(
        columns_of(comparison)
    )
    cells = [table_cells(row) for row in comparison.measurements]
    assert [cell["method"] for cell in cells] == 2 * list(DESIGNS)
    assert cells[list(DESIGNS).index("local")]["hits"] == "0.000"
    references = ("one store", "Belady", "ideal")
    assert {tuple(cell[name] for name in references) for cell in cells} == {("0.667",) * 3}
    page = render_report(comparison)
    assert "Where blocks were found" in page
    assert "of 6 blocks need not be computed" in page


def test_other_jobs_do_not_change_the_report_of_a_replay(
    topology: Topology, tmp_path: Path
) -> None:
    path = write_trace(tmp_path / "t.jsonl", [(3000 * n, [1, 2]) for n in range(3)])
    text = (
        f"name: both\njobs:\n  serving: {{kind: kv, trace: {path.name}, block: 64KiB}}\n"
        "  sums: {kind: collective, operation: allreduce, size: 64KiB}"
    )
    workload = parse_workload(text, tmp_path / "w.yaml")
    runs = sweep(
        make_tasks(topology, workload, algorithms=["inc"]),
        processes=1,
        progress=lambda _standing: None,
    )
    comparison = outcome(topology, "both", Settings(), Machine.here(), runs)
    by_method = {row.method: row for row in comparison.measurements}
    serving = by_method["serving: home beside inc"].blocks
    assert serving is not None
    assert (serving.asked, serving.computed) == (6, 2)
    assert by_method["sums: inc"].correct
    assert {"bound", "hits"} <= set(columns_of(comparison))
    assert "66.7% of 6 blocks need not be computed" in render_report(comparison)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("worker-share: 0.7, switch-share: 0.6", "more than all memory"),
        ("algorithm: inc", "no design 'inc'.*home, balanced, network, local"),
        ("algorithm: 'home:policy=mru'", "there is no policy 'mru'; policies: lru, lfu, s3fifo"),
        ("homes: {h9: 1}", "homes: there is no host 'h9'"),
        ("homes: {h0: 0}", "weight of h0"),
        ("replicas: 9", "9 replicas"),
    ],
)
def test_mistakes_are_reported(topology: Topology, tmp_path: Path, keys: str, message: str) -> None:
    path = write_trace(tmp_path / "t.jsonl", [(0, [1])])
    text = f"name: w\njobs:\n  s: {{kind: kv, trace: {path.name}, {keys}}}"
    with pytest.raises(WorkloadError, match=message):
        run(topology, parse_workload(text, tmp_path / "w.yaml"), "network")


def test_a_short_form_has_shares_and_sizes(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "t.jsonl", [(0, [1])])
    (job,) = workload_of(path, ",worker-share=0.125,cache=1GiB,policy=s3fifo,deadline=20ms").jobs
    assert isinstance(job, KvJob)
    written = job.written
    assert (written.worker_share, written.cache, written.deadline) == (0.125, 1 << 30, 0.02)
    assert written.policy == "s3fifo"


def test_memory_is_given_in_bytes_or_in_blocks(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "t.jsonl", [(0, [1])])
    for written, size_bytes in (("300blocks", 300 * BLOCK_BYTES), ("1 block", BLOCK_BYTES)):
        (job,) = workload_of(path, f",cache={written}").jobs
        assert isinstance(job, KvJob)
        assert job.written.cache == size_bytes
    with pytest.raises(WorkloadError, match="8GiB, or a number of blocks such as 10000blocks"):
        workload_of(path, ",cache=300 blocksof")
    with pytest.raises(WorkloadError, match="holds no block"):
        workload_of(path, ",cache=1B")


def test_replays_compare_only_designs(topology: Topology, tmp_path: Path) -> None:
    path = write_trace(tmp_path / "t.jsonl", [(0, [1])])
    with pytest.raises(WorkloadError, match=r"no design 'ring'; designs: home, balanced"):
        make_tasks(topology, workload_of(path), algorithms=["network", "ring"])


def test_only_one_replay_can_use_the_memory_of_a_switch(topology: Topology, tmp_path: Path) -> None:
    path = write_trace(tmp_path / "t.jsonl", [(0, [1])])
    job = f"{{kind: kv, trace: {path.name}}}"
    text = f"name: w\njobs: {{a: {job}, b: {job}}}"
    with pytest.raises(WorkloadError, match="several kv jobs: a, b"):
        run(topology, parse_workload(text, tmp_path / "w.yaml"), "network")


def test_memory_is_limited_per_node_by_the_design(topology: Topology, tmp_path: Path) -> None:
    # Room for 8 blocks over 4 workers: 2 each, and prompts of 3 never stay whole.
    prompts = [(3000 * n, [1, 2, 3]) for n in range(8)]
    path = write_trace(tmp_path / "t.jsonl", prompts)
    few = blocks_of(run(topology, workload_of(path, ",cache=512KiB"), "local"))
    many = blocks_of(run(topology, workload_of(path, ",cache=768KiB"), "local"))
    assert (few.computed, many.computed) == (24, 12)
