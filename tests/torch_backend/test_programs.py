"""Programs on four ranks over innet, in one job because PyTorch takes longer to start than they.

The ranks are on two hosts with two workers each, where programs use local ranks, too.
DistributedDataParallel trains as over any backend, PyTorch's kinds of parallelism as over Gloo,
process groups are those that PyTorch asks for, and errors reach the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import torch

from innet.topology import load_topology

pytestmark = pytest.mark.torch

RANKS = range(4)
TWO_BY_TWO = load_topology("star:2").with_workers(2).with_overrides(rate_bps=1e9)
NODES = TWO_BY_TWO.hosts
PROGRAMS = (
    "local_ranks.py",
    "data_parallel.py",
    "uneven_inputs.py",
    "compiled.py",
    "subgroups.py",
    "fails_and_goes_on.py",
    "group_control.py",
    "errors.py",  # last: it ends in mid-operation
)
APPS = Path(__file__).parents[2] / "apps"

STEPS = 10
# Layouts and layers, as few as a layout takes: most of the time goes by layers, not by sizes.
# For each, the copies of a part of the parameters; where there is one, nothing can be compared.
COPIES = {
    "ddp@2": 4,
    "ddp@4": 4,
    "fsdp@2": 1,
    "hsdp@2": 2,
    "tp@2": 4,  # the norms and embeddings, which are not cut
    "fsdp:2,tp:2@2": 2,
    "pp@4": 1,
    "pp:2,ddp:2@2": 2,
    "ep@2": 4,  # all but the experts
    "cp@2": 4,
}
# Replicas, shards, cut layers and stages; `make jobs` has each kind of parallelism by itself.
QUICK = ("ddp@2", "fsdp:2,tp:2@2", "pp:2,ddp:2@2")
CASES = [
    pytest.param(case, marks=() if case in QUICK else pytest.mark.jobs, id=case) for case in COPIES
]
DENSE = [case for case in CASES if case.id != "ep@2"]

Found = list[dict[str, Any]]
"""What ``workers/parallelism.py`` saved, by rank."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("parallelism")


@pytest.fixture(scope="module")
def job(request, run_job, folder):
    """All that the selected tests look at."""
    tests = [
        item
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.path == request.path
        and "job" in item.fixturenames
    ]
    cases = asked_for(tests)
    scripts = [f"parallelism.py {folder} {' '.join(cases)}"] if cases else []
    if any("trained" not in test.fixturenames for test in tests):
        scripts += PROGRAMS
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(APPS))
        result = run_job(scripts, topology=TWO_BY_TWO)
    assert result.failure == ""
    return result


def asked_for(tests: Sequence[pytest.Function]) -> list[str]:
    """The cases of the tests, and what they are compared with."""
    cases = {str(test.callspec.params["case"]) for test in tests if "case" in test.fixturenames}
    return sorted({*cases, *map(plain, cases)})


@pytest.fixture(scope="module")
def trained(job, folder):
    """What was found for a backend and a case."""

    def found(backend: str, case: str) -> Found:
        found = [torch.load(folder / backend / case / f"{rank}.pt") for rank in RANKS]
        for rank, of_rank in enumerate(found):
            assert "error" not in of_rank, f"{backend}, rank {rank}: {of_rank['error']}"
        return found

    return found


def said_of_local_ranks(result, rank):
    """The last line: PyTorch's store may warn before it, that a namespace has no name server."""
    return result.said(NODES[rank], "local_ranks.py").splitlines()[-1]


def expected_of_local_ranks(rank):
    host, local_rank = divmod(rank, 2)
    return f"{rank}: {local_rank} on host {host}, same True, trained True"


def test_programs_that_use_local_ranks_train_unchanged(job):
    for rank in RANKS:
        assert said_of_local_ranks(job, rank) == expected_of_local_ranks(rank)


@pytest.mark.jobs
@pytest.mark.netns
def test_programs_that_use_local_ranks_train_unchanged_in_namespaces(run_job):
    programs = ["local_ranks.py", "data_parallel.py"]
    result = run_job(programs, topology=TWO_BY_TWO, mode="netns")
    assert result.failure == ""
    for rank in RANKS:
        assert said_of_local_ranks(result, rank) == expected_of_local_ranks(rank)
        check_data_parallel(result, rank)


def check_data_parallel(result, rank):
    said = result.said(NODES[rank], "data_parallel.py")
    for algorithm in ("inc", "ring", "ps"):
        assert f"{algorithm}: same bits True, as alone True" in said
    assert "objects [0, 1, 2, 3]" in said


def test_training_equals_that_of_one_process_on_all_ranks(job):
    for rank in RANKS:
        check_data_parallel(job, rank)


def test_ranks_can_run_out_of_inputs_long_before_others(job):
    for rank, steps in enumerate((0, 1, 2, 40)):
        said = job.said(NODES[rank], "uneven_inputs.py")
        assert f"steps {steps}, same True, mean True" in said


def test_compiled_functions_communicate(job):
    for rank in RANKS:
        said = job.said(NODES[rank], "compiled.py")
        assert "compiled as it is: True" in said
        assert "trained as it is: True" in said


def test_groups_have_pytorchs_members_and_numbers(job):
    """Every process group that PyTorch asks for: its members, its numbering, its own life."""
    for index in RANKS:
        rank = 3 - index
        lines = job.said(NODES[index], "subgroups.py").splitlines()
        said = dict(line.split(": ", 1) for line in lines)
        assert said["world 1"] == said["world 2"] == "1111"
        assert said["order"] == "[0, 1, 2, 3]"
        assert said["alone"] == str(10**rank)
        assert said["rows"] == ("101" if rank in (0, 2) else "1010")
        assert said["columns"] == ("11" if rank in (0, 1) else "1100")
        assert said.get("pair", "101") == said.get("again", "101") == said.get("still", "101")
        assert ("pair" in said) == (rank in (0, 2))
        assert said.get("rest", "1011") == "1011"
        assert ("rest" in said) == (rank != 2)


def test_a_job_continues_after_calls_that_pytorch_refused_on_one_rank(job):
    """Objects that cannot be pickled, and tensors that it checks itself."""
    for rank in RANKS:
        assert job.said(NODES[rank], "fails_and_goes_on.py") == "all right"


def test_subgroups_meshes_failed_recordings_and_an_abort_work(job):
    for rank in RANKS:
        said = job.said(NODES[rank], "group_control.py")
        assert "backend: innet cpu:innet,cuda:innet" in said
        assert f"split: {[(0, 2, 9), (0, 1, 2), None, (1, 2, 9)][rank]}" in said
        rows, columns = [(5, 3), (10, 3), (5, 12), (10, 12)][rank]
        assert f"mesh: [{rows}, {columns}] 15" in said
        assert "after a failed recording: 15" in said
        assert f"recorded messages: {(rank - 1) % 4}" in said
        if rank != 3:
            assert "aborted: ['allreduce(sum.f32, shape (3,))" in said
            assert "was aborted in this process" in said


def test_errors_pass_through_futures_functional_collectives_and_backward(job):
    for rank in RANKS:
        said = job.said(NODES[rank], "errors.py")
        heard = dict(line.split(": ", 1) for line in said.splitlines() if ": " in line)
        for name in ("wait", "future", "functional", "backward", "coalesced"):
            assert f"allreduce(sum.f32, shape ({10 + rank},))" in heard[name], said
            assert "ranks differ" in heard[name]
        assert "recv(f32, shape (6,), from=" in heard["recv of another size"]
        assert "has 5 elements, and 6 elements" in heard["recv of another size"]
        assert heard["goes on"] == "[4.0, 4.0]"
        assert "ends" in said


@pytest.mark.jobs
def test_a_job_over_a_ring_continues_after_refused_calls(run_job):
    result = run_job("fails_and_goes_on.py", algorithm="ring")
    assert result.failure == ""
    assert [result.said(f"h{rank}") for rank in RANKS] == ["all right"] * len(RANKS)


@pytest.mark.jobs
def test_the_other_ranks_name_a_killed_rank(run_job):
    result = run_job("dies.py", topology="star:3")
    assert "h2" in result.failure
    assert "SIGKILL" in result.failure
    for node in ("h0", "h1"):
        heard = [line for line in result.said(node).splitlines() if line.startswith("heard|")]
        assert len(heard) == 1, result.said(node)
        assert "RankFailed" in heard[0]
        assert "rank 2 (h2)" in heard[0]
        assert "SIGKILL" in heard[0]


def plain(case: str) -> str:
    """The same layers, replicated."""
    return f"ddp@{case[-1]}"


def losses(found: Found) -> list[float]:
    """The mean over the ranks that know a loss, of each step."""
    known = [of_rank["losses"] for of_rank in found if of_rank["losses"][0] is not None]
    return [sum(of_step) / len(known) for of_step in zip(*known, strict=True)]


@pytest.mark.parametrize("case", CASES)
def test_parameters_after_10_steps_equal_those_of_gloo(trained: Any, case: str) -> None:
    for own, peer in zip(trained("innet", case), trained("gloo", case), strict=True):
        assert len(own["losses"]) == STEPS
        assert own["parameters"].keys() == peer["parameters"].keys()
        for name, (shard, parameter) in own["parameters"].items():
            peer_shard, of_peer = peer["parameters"][name]
            assert shard == peer_shard
            torch.testing.assert_close(parameter, of_peer, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_copies_are_equal_to_the_bit(trained: Any, case: str) -> None:
    parts = [
        ((name, shard), parameter)
        for of_rank in trained("innet", case)
        for name, (shard, parameter) in of_rank["parameters"].items()
    ]
    most = 0
    for key, copies in groupby(sorted(parts, key=lambda part: part[0]), key=lambda part: part[0]):
        first, *others = [parameter for _, parameter in copies]
        assert all(torch.equal(first, other) for other in others), key
        most = max(most, 1 + len(others))
    assert most == COPIES[case]


@pytest.mark.parametrize("case", DENSE)
def test_the_layout_changes_only_rounding(trained: Any, case: str) -> None:
    expected = losses(trained("innet", plain(case)))
    assert losses(trained("innet", case)) == pytest.approx(expected, rel=1e-5)
    assert expected[-1] < 0.75 * expected[0], "it learns"
