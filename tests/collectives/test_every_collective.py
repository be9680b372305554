"""Every collective between the processes of a job, and in its blocking and non-blocking form."""

import asyncio
import concurrent.futures
import inspect
from typing import Any

import numpy as np
import pytest

from innet.collectives import Communicator, Work
from innet.errors import Cancelled
from innet.topology import load_topology
from tests.collectives.cluster import Cluster


@pytest.fixture(scope="module")
def job(run_job):
    result = run_job(
        [
            "slow_to_register.py",  # first: it counts all that its nodes do
            "every_collective.py",
            "same_group_again.py",
            "fails_and_goes_on.py",
            "objects.py",
        ]
    )
    assert result.failure == ""
    return result


@pytest.mark.parametrize(
    "script",
    ["every_collective.py", "same_group_again.py", "fails_and_goes_on.py", "objects.py"],
)
def test_every_rank_has_the_right_result(job, script):
    """What MPI's collectives give; groups joined again; calls that fail on one rank; objects."""
    assert [job.said(f"h{rank}", script) for rank in range(4)] == 4 * ["all right"]


def test_no_rank_receives_requests_before_it_serves_its_names(job):
    """A host that is slow to register its names refuses nothing, in any of its groups."""
    for rank in range(4):
        said = job.said(f"h{rank}", "slow_to_register.py")
        assert said == "refused 0, evaluated by itself 0"


@pytest.mark.jobs
@pytest.mark.parametrize("algorithm", ["ring", "auto"])
@pytest.mark.parametrize("hosts", [2, 3])
def test_every_collective_by_other_algorithms(run_job, algorithm, hosts):
    scripts = ["every_collective.py", "same_group_again.py", "fails_and_goes_on.py"]
    result = run_job(
        scripts[: 3 if hosts == 3 else 1], algorithm=algorithm, topology=f"star:{hosts}"
    )
    assert result.failure == ""


OPERATIONS = [name for name in vars(Communicator) if f"i{name}" in vars(Communicator)]


@pytest.mark.parametrize("name", OPERATIONS)
def test_help_shows_the_parameters_and_the_result_of_both_forms(name: str) -> None:
    waits, starts = getattr(Communicator, name), getattr(Communicator, f"i{name}")
    assert inspect.getdoc(waits) == inspect.getdoc(starts)
    signature = inspect.signature(waits)
    assert signature.parameters == inspect.signature(starts).parameters
    result = inspect.signature(starts).return_annotation
    assert result == f"Work[{signature.return_annotation}]"


def test_the_blocking_form_returns_the_result_and_the_other_form_its_work() -> None:
    with Cluster(load_topology("star:2")) as cluster:
        one, other = cluster.communicators
        work = one.iallreduce(np.full(3, 2.0), op="prod")
        assert isinstance(work, Work)
        assert other.allreduce(np.full(3, 4.0), op="prod").tolist() == [8, 8, 8]
        assert work.wait().tolist() == [8, 8, 8]


def test_a_work_is_used_as_futures_of_python_are() -> None:
    with Cluster(load_topology("star:2")) as cluster:
        one, other = cluster.communicators
        work = one.iallreduce(np.ones(3))
        with pytest.raises(TimeoutError):
            work.result(timeout=0.01)
        with pytest.raises(TimeoutError):
            work.exception(timeout=0.01)
        assert work.running()
        assert not work.done()
        assert not concurrent.futures.wait([work.future()], timeout=0.01).done
        ended: list[Work[Any]] = []
        work.add_done_callback(ended.append)
        other.allreduce(np.ones(3))
        assert work.result(timeout=20).tolist() == [2, 2, 2]
        assert concurrent.futures.wait([work.future()], timeout=20).done == {work.future()}
        assert work.exception() is None
        assert ended == [work]
        assert not work.cancelled()
        assert not work.running()

        async def awaited() -> Any:
            first = asyncio.wrap_future(one.iallreduce(np.ones(1)).future())
            second = other.iallreduce(np.ones(1))
            return await asyncio.gather(first, second)

        assert [total.tolist() for total in asyncio.run(awaited())] == [[2], [2]]
        given_up = one.irecv(np.ones(1), source=1)
        given_up.cancel()
        assert isinstance(given_up.exception(timeout=20), Cancelled)
        assert given_up.cancelled()
        with pytest.raises(Cancelled):
            given_up.result(timeout=20)
