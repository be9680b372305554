"""What it takes to check a running job's Data from outside: its anchor, and its groups' plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from innet.errors import EmulationError
from innet.node.control.controller_socket import CONTROLLER_SOCKET_NAME, ControllerClient
from innet.plans import Plan
from innet.security.certificate_file import CERTIFICATES_SUFFIX, load_packets
from innet.security.trust.certificate import Certificate
from innet.security.trust.facts import GroupFacts

if TYPE_CHECKING:
    from innet.cluster.emulation.runs import RunRecord

_TIMEOUT_S = 5.0


def job_anchor(run: RunRecord, job: str | None = None) -> Certificate:
    """The certificate that those of a job's nodes lead up to.

    Args:
        run: where it runs.
        job: as `innet status` calls it; ``None``: the only one.

    Raises:
        EmulationError: no such job runs there, or several do and none is named.
        SecurityError: its certificates cannot be read.
    """
    files = {file.stem: file for file in run.run_dir.glob(f"*{CERTIFICATES_SUFFIX}")}
    names = sorted(files)
    if job is None and len(names) == 1:
        job = names[0]
    if job not in files:
        running = f"the jobs of {run.run_id} are {', '.join(names)}" if names else "none runs there"
        asked = "say which job's anchor you want" if job is None else f"there is no job {job}"
        raise EmulationError(f"{asked}: {running}. `innet status {run.run_id}` shows them.")
    return Certificate.parse(load_packets(files[job])[0])


def group_facts(run: RunRecord) -> dict[str, GroupFacts]:
    """What policies ask about the groups of a run's jobs, by the prefix of their names.

    Raises:
        ControlError: the run's controller does not answer.
    """
    with ControllerClient(run.run_dir / CONTROLLER_SOCKET_NAME) as client:
        groups = client.ask("plans", timeout_s=_TIMEOUT_S)
    facts: dict[str, GroupFacts] = {}
    for group in groups:
        for prefix, placements in group["plans"].items():
            made, *moved = (
                GroupFacts.of_plan(Plan.from_dict(plan), group["ranks"]) for plan in placements
            )
            for later in moved:
                made = later.merged_with(made)
            facts[prefix] = made
    return facts
