"""The controller as its launcher sees it: a process that may be restarting."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from innet.cluster.control.jobs import Job, KnownJob, LaunchRecord
from innet.cluster.control.placements import Loss
from innet.errors import NoAnswer
from innet.node.controller_client import ControllerClient
from innet.plans import Load
from innet.security.group_keys import GroupKeySource
from innet.security.keys import JobTrust
from innet.telemetry.events import report

_ANSWER_TIMEOUT_S = 30.0
_RETRY_PAUSE_S = 0.05
_MOST_IDLE = 4
_job_adapter: TypeAdapter[Job] = TypeAdapter(Job)


class RemoteController:
    """Sends the launcher's requests to the controller's process, and records those in effect.

    A process that replaces a dead one gets the record at its start. Every method is a request of
    :attr:`innet.cluster.control.controller.Controller.methods`, and blocks until there is a reply,
    from this process or its successor.
    """

    def __init__(self, socket: Path, authority: str | None = None) -> None:
        """``authority``: the private key that signs the keys of groups (PKCS#8, hexadecimal)."""
        self._socket = socket
        self._record = LaunchRecord(authority=authority)
        self._lock = threading.Lock()
        self._given_up = False
        self._idle: list[ControllerClient] = []
        """Connected: a connection outlives the socket's file, which somebody may remove."""

    @property
    def generation(self) -> int:
        """How often the controller was started again."""
        return self._record.generation

    def next_generation(self) -> None:
        """Another process takes the place of a dead one, and gets all requests from now on."""
        self._record.generation += 1

    def give_up(self) -> None:
        """No controller answers any more: requests fail at once, and reports are only recorded."""
        self._given_up = True
        while self._idle:
            self._idle.pop().close()

    def record(self) -> LaunchRecord:
        """A copy of the requests that are still in effect."""
        with self._lock:
            return self._record.model_copy(deep=True)

    def admit_job(
        self,
        name: str | None,
        hosts: Sequence[str] | None,
        weight: int = 1,
        ranks: int | None = None,
    ) -> Job:
        wanted = None if hosts is None else list(hosts)
        answer = self._ask("admit_job", name=name, hosts=wanted, weight=weight, ranks=ranks)
        job = _job_adapter.validate_python(answer)
        with self._lock:
            self._record.admitted += 1
            self._record.jobs[job.name] = KnownJob(job=job)
        return job

    def open_job(self, job: Job, keys: JobTrust, groups: GroupKeySource) -> None:
        known = KnownJob(job=job, keys=keys, groups=groups)
        with self._lock:
            self._record.jobs[job.name] = known
        self._ask("open_job", **known.model_dump())

    def close_job(self, job: Job) -> None:
        with self._lock:
            self._record.forget(job)
        self._tell("close_job", job=_job_adapter.dump_python(job))

    def fail(self, node: str, why: str) -> None:
        with self._lock:
            self._record.failed.setdefault(node, why)
        self._tell("fail_node", node=node, why=why)

    def lose(self, node: str, why: str) -> None:
        with self._lock:
            self._record.failed.setdefault(node, why)
            self._record.gone[node] = why
        self._tell("lose_node", node=node, why=why)

    def end(self, node: str, how: str) -> None:
        with self._lock:
            self._record.gone[node] = ""
        self._tell("end_node", node=node, how=how)

    def failures(self) -> dict[str, str]:
        """The failed nodes and why, in the order of their failures.

        Without a controller, those that the launcher itself has seen.
        """
        try:
            failures: dict[str, str] = self._ask("failures")
        except NoAnswer:
            if not self._given_up:
                raise
            with self._lock:
                return dict(self._record.failed)
        return failures

    def has_used(self, job: Job) -> bool:
        """Whether a process of the job has opened innet; true if nobody knows."""
        try:
            used: list[str] = self._ask("used_hosts")
        except NoAnswer:
            return True
        return not set(job.hosts).isdisjoint(used)

    def load(self) -> tuple[Load, frozenset[str]]:
        """The load of all jobs on the network, and the unreachable hosts."""
        answer = self._ask("load")
        return Load.model_validate(answer["load"]), frozenset(answer["out_of_reach"])

    def lose_switch(self, switch: str, why: str, *, returns: bool) -> None:
        message = f"the network routes round {switch}: {why}"
        report("switch_lost", message, node=switch, returns=returns, why=why)
        with self._lock:
            self._record.lost[switch] = Loss(why, returns)
        self._tell("lose_switch", switch=switch, why=why, returns=returns)

    def restore_switch(self, switch: str) -> None:
        report("switch_restored", f"sums and routes return to {switch}", node=switch)
        with self._lock:
            self._record.lost.pop(switch, None)
        self._tell("restore_switch", switch=switch)

    def watch_nodes(self) -> None:
        with self._lock:
            self._record.watches = True
        self._ask("watch_nodes")

    def ping(self) -> None:
        """Wait until the controller answers."""
        self._ask("ping")

    def _tell(self, method: str, **params: Any) -> None:
        """Report a change to the controller, unless it has ended."""
        try:
            self._ask(method, **params)
        except NoAnswer:
            if not self._given_up:
                raise

    def _ask(self, method: str, **params: Any) -> Any:
        deadline_s = time.monotonic() + _ANSWER_TIMEOUT_S
        while True:
            generation = self._record.generation
            client = self._client()
            try:
                answer = client.request(
                    method,
                    timeout_s=_ANSWER_TIMEOUT_S,
                    give_up=partial(self._was_replaced, generation),
                    **params,
                )
            except NoAnswer:
                client.close()
                is_waited_for = self._was_replaced(generation) and not self._given_up
                if not is_waited_for or time.monotonic() > deadline_s:
                    raise
            except BaseException:
                client.close()
                raise
            else:
                self._keep(client)
                return answer
            time.sleep(_RETRY_PAUSE_S)

    def _client(self) -> ControllerClient:
        with self._lock:
            return self._idle.pop() if self._idle else ControllerClient(self._socket)

    def _keep(self, client: ControllerClient) -> None:
        with self._lock:
            if len(self._idle) < _MOST_IDLE and not self._given_up:
                self._idle.append(client)
                return
        client.close()

    def _was_replaced(self, generation: int) -> bool:
        return self._given_up or self._record.generation != generation
