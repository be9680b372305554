"""A rank that fails in the midst of a masked sum: nobody waits for it, and all know where they are.

No test here could pass by a deadline: the communicators have ten minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from innet.collectives.masked import MaskedSum, MaskedTotal
from innet.collectives.masked.masked_round import MaskedRound
from innet.errors import InnetError, PeerError, SecurityError
from innet.topology import load_topology
from tests.collectives.cluster import Cluster
from tests.collectives.masked.adversary import watching
from tests.collectives.masked.dying_ranks import Death, Died, World

RANKS = 3
FAILED = 1


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(load_topology(f"star:{RANKS}"), timeout_s=600) as opened:
        yield opened


@pytest.fixture
def run(cluster: Cluster, request: pytest.FixtureRequest) -> Callable[[Any], list[Any]]:
    """Runs a program on all ranks, in a group of its own."""
    name = f"g{abs(hash(request.node.name))}"
    communicators = cluster.group(name, cluster.plan.ranks, "inc", timeout_s=600)

    def on_all(program: Callable[[Any], Any]) -> list[Any]:
        with ThreadPoolExecutor(RANKS) as pool:
            return list(pool.map(program, communicators))

    return on_all


class Unpreparable:
    """Values that cannot be had."""

    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise self.kind("in this step")


@contextmanager
def failing_step(step: str, kind: type[BaseException]) -> Iterator[None]:
    """In the first round, the failing rank raises in a step of its part."""
    original = getattr(MaskedRound, step)
    failed: list[str] = []

    def fail_once(part: MaskedRound, *arguments: Any) -> Any:
        if part._rank == FAILED and not failed:
            failed.append(step)
            raise kind("in this step")
        return original(part, *arguments)

    with patch.object(MaskedRound, step, fail_once):
        yield


@contextmanager
def failing_wait(comm: Any, call: str, nth: int, kind: type[BaseException]) -> Iterator[None]:
    """The failing rank raises while it waits for an exchange to which it has contributed."""
    start, calls = getattr(comm, f"i{call}"), []

    def fail_once(*arguments: Any) -> Any:
        work = start(*arguments)
        calls.append(work)
        if comm.rank == FAILED and len(calls) == nth:
            raise kind("in this step")
        return work.wait()

    with patch.object(comm, call, fail_once):
        yield


def attempt(sums: MaskedSum, array: Any) -> Any:
    try:
        return sums.allreduce(array).total
    except BaseException as error:
        return error


def program(step: str, kind: type[BaseException]) -> Callable[[Any], Any]:
    def run_rank(comm: Any) -> tuple[Any, Any, np.ndarray]:
        sums, array = MaskedSum(comm, limit=4.0), np.array([comm.rank, 1.0])
        given = Unpreparable(kind) if step == "prepare" and comm.rank == FAILED else array
        with ExitStack() as patched:
            if ":" in step:
                call, nth = step.split(":")
                patched.enter_context(failing_wait(comm, call, int(nth), kind))
            first = attempt(sums, given)
        return first, attempt(sums, array), comm.allreduce(np.ones(1))

    return run_rank


BEFORE_SIGNING = ["prepare", "advertise", "deal", "mask", "allgather:1", "alltoall:1"]
AFTER = ["sign", "reveal", "allreduce:1", "allgather:2"]
KINDS = [KeyboardInterrupt, MemoryError]


def outcomes(
    run: Callable[[Any], list[Any]], step: str, kind: type[BaseException]
) -> tuple[list[Any], ...]:
    with ExitStack() as patched:
        if hasattr(MaskedRound, step):
            patched.enter_context(failing_step(step, kind))
        first, second, plain = zip(*run(program(step, kind)), strict=True)
    assert isinstance(first[FAILED], kind)
    assert [total[0] for total in plain] == [RANKS] * RANKS
    return list(first), list(second)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", BEFORE_SIGNING)
def test_a_failure_before_ranks_sign_is_an_error_on_all_and_the_next_sum_is_right(run, step, kind):
    first, second = outcomes(run, step, kind)
    for rank, error in enumerate(first):
        if rank != FAILED:
            assert isinstance(error, PeerError)
            assert error.rank == FAILED
            assert "rank 1 (h1) takes no part in a masked sum" in str(error)
            assert f"{kind.__name__}: in this step" in str(error)
    for total in second:
        assert isinstance(total, np.ndarray), total
        assert total.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", AFTER)
def test_a_failure_after_ranks_have_signed_ends_the_masked_sums_of_all(run, step, kind):
    """The sum may be known to somebody, so the same update must not go into another one."""
    with watching() as rounds:
        first, second = outcomes(run, step, kind)
    for rank, error in enumerate(first):
        if rank != FAILED:
            assert isinstance(error, SecurityError)
            assert "rank 1 (h1) has failed in a masked sum" in str(error)
            assert f"{kind.__name__}: in this step" in str(error)
    for error in second:
        assert isinstance(error, SecurityError)
        assert "no masked sums any more" in str(error)
    (only,) = rounds.values()
    assert len({included for _, _, included, _ in only.revealed}) <= 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", ["unmask", "alltoall:2"])
def test_a_failure_after_the_revelation_leaves_the_other_ranks_their_sum(run, step, kind):
    """The rank that failed does not know the sum, and says so when it is to make another one."""
    first, second = outcomes(run, step, kind)
    for rank, total in enumerate(first):
        if rank != FAILED:
            assert total.tolist() == [3.0, 3.0]
    for error in second:
        assert isinstance(error, InnetError)
        assert "no masked sums any more" in str(error)


NODES = ("h0", "h1", "h2", "h3", "h4")
THRESHOLD = 4
STEPS = ["advertise", "deal", "mask", "sign", "reveal", "unmask"]


@st.composite
def deaths(draw: st.DrawFn) -> list[Death]:
    some = st.sets(st.sampled_from(NODES))
    node = draw(st.sampled_from(["h0", "h2", "h3", "h4"]))
    return [Death(node, draw(st.integers(0, 20)), draw(st.booleans()), draw(some))]


@settings(max_examples=40, deadline=None)
@given(deaths(), st.sampled_from(STEPS))
def test_a_failure_and_a_death_give_no_wrong_sum_and_reveal_at_most_one_set(dying, step):
    def two_sums(comm: Any) -> list[Any]:
        sums = MaskedSum(comm, limit=1e5, threshold=THRESHOLD)
        value = 10 ** NODES.index(comm.nodes[comm.rank])
        outcomes: list[Any] = []
        for _ in range(2):
            try:
                outcomes.append(sums.allreduce(np.array([value])))
            except (InnetError, MemoryError) as error:
                outcomes.append(error)
        return outcomes

    with watching() as rounds, failing_step(step, MemoryError):
        results = World(NODES, dying).run(two_sums)
    for result in results.values():
        if isinstance(result, Died):
            continue
        for outcome in result:
            if isinstance(outcome, MaskedTotal):
                added = sum(10 ** NODES.index(node) for node in outcome.contributors)
                assert outcome.total.tolist() == [added]
    for seen in rounds.values():
        assert len({included for _, _, included, _ in seen.revealed}) <= 1
