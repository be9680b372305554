"""The load of a network that is up, as its controller has measured it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from innet.cluster.emulation.runs import RunRecord
from innet.errors import EmulationError, NoAnswer
from innet.node.controller_client import CONTROLLER_SOCKET_NAME, ControllerClient
from innet.plans import NO_LOAD, Load
from innet.plans.bounds import DirectedLink

_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class MeasuredLoad:
    """The load of a network and its jobs; empty by default.

    Attributes:
        load: what all jobs together use.
        taken: the hosts of jobs, and those that no path leads to.
        jobs: what each sends on each link, in bits a second.
    """

    load: Load = NO_LOAD
    taken: frozenset[str] = frozenset()
    jobs: Mapping[str, Mapping[DirectedLink, float]] = field(default_factory=dict)


def read_load(record: RunRecord) -> MeasuredLoad:
    """The load of the network of ``record``, as means over the setting ``placement.interval_s``.

    Raises:
        EmulationError: the network is not up, or its controller does not answer.
    """
    record.require_up()
    if record.is_stale:
        raise EmulationError(
            f"{record.run_id} is down: its launcher has ended. `innet up TOPOLOGY --name NAME` "
            f"starts a network; `innet down {record.run_id}` removes what is left of this one."
        )
    try:
        with ControllerClient(record.run_dir / CONTROLLER_SOCKET_NAME) as client:
            answer = client.request("load", timeout_s=_TIMEOUT_S)
            jobs = client.request("jobs", timeout_s=_TIMEOUT_S)
    except NoAnswer as error:
        raise EmulationError(
            f"the controller of {record.run_id} does not answer, so its load is not known: {error} "
            f"`innet doctor {record.run_id}` looks for the cause."
        ) from error
    return MeasuredLoad(
        load=Load.model_validate(answer["load"]),
        taken=frozenset(answer["out_of_reach"]).union(*(job["hosts"] for job in jobs)),
        jobs={job: {(u, v): bps for u, v, bps in of} for job, of in answer["jobs"].items()},
    )
