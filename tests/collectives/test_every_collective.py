"""Every collective between the processes of a job, and in its blocking and non-blocking form."""

import inspect

import numpy as np
import pytest

from innet.collectives import Communicator, Work
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
