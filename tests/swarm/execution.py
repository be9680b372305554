"""Running a scenario, and what must hold while it runs and when it has ended."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import innet
from innet.collectives import Communicator
from innet.errors import (
    Cancelled,
    CollectiveError,
    DeadlineExceeded,
    InnetError,
    MismatchError,
    TransportError,
)
from innet.lab.simulation import SimulatedJob
from innet.settings import Settings
from tests.swarm.faults import Faults
from tests.swarm.network import network_of
from tests.swarm.one_sided import STAGES
from tests.swarm.operations import Array, Operation, agreed_part, fault_of, inputs_of, start
from tests.swarm.scenario import Call, Group, Scenario

_SLACK_S = 5.0
"""How much later than its deadline an operation may end."""
_RECOVERY_S = 20.0
"""What is well again for so long excuses nothing any more."""
_PATIENCE_S = 3000.0
"""For what must work in the end, over links that lose a third at each of six hops, too."""
_SETTLING_S = 70.0
"""After which nothing that nobody waits for may be left in a table."""
_MOST_HOPS = 12
_COUNTED_DROPS = ("dropped_queue", "dropped_loss", "dropped_down", "corrupted", "duplicated")


@dataclass
class Outcome:
    """What came of a scenario.

    Attributes:
        problems: what did not hold; empty when all is well.
        log: what happened, in order, with virtual times.
        operations: how many ranks called something.
        failed_operations: those that ended with an error that the scenario excuses.
        packets: that were delivered.
        digest: of all packets.
    """

    problems: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    operations: int = 0
    failed_operations: int = 0
    packets: int = 0
    digest: int = 0


@dataclass(frozen=True)
class _Place:
    """A call of a group, as one rank makes it."""

    group: int
    number: int
    call: Call
    comm: Communicator

    def __str__(self) -> str:
        call = self.call
        return (
            f"g{self.group} call {self.number} ({call.collective} {call.dtype} x {call.elements}), "
            f"rank {self.comm.rank}"
        )


class Execution:
    """One run of one scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.outcome = Outcome()
        settings = Settings().with_assignments(
            f"{name}={value}" for name, value in scenario.settings.items()
        )
        self.sim = innet.Simulation(
            network_of(scenario),
            settings=settings,
            seed=scenario.seed,
            audit_interval=scenario.audit_interval,
            jobs=[SimulatedJob(job.name, job.hosts, job.weight) for job in scenario.jobs],
        )
        self._faults = Faults(self.sim, scenario.links, self._note, self._shrink_groups_of)
        self._survivors: dict[int, list[Communicator]] = {}
        self._of_survivors: list[asyncio.Task[None]] = []
        self._agreed: dict[tuple[int, int], bytes] = {}
        self._broken: set[int] = set()

    def run(self) -> Outcome:
        """Run it all; whatever goes wrong is told in the outcome."""
        hook, sys.unraisablehook = sys.unraisablehook, self._on_unraisable
        try:
            self._run()
        except Exception as error:  # of any kind: the seed has to be printed
            self._problem(f"{type(error).__name__}: {error}")
        finally:
            sys.unraisablehook = hook
            counters = self.sim.counters()
            self.outcome.digest = counters["digest"]
            self.outcome.packets = counters["packets"]
            self._note_drops()
            self.sim.close()
        return self.outcome

    def _run(self) -> None:
        scenario = self.scenario
        communicators = [
            self.sim.group(
                group.hosts,
                algorithm=group.algorithm,
                name=f"g{number}",
                timeout_s=scenario.timeout_s,
            )
            for number, group in enumerate(scenario.groups)
        ]
        for fault in scenario.faults:
            self._faults.schedule(fault)
        self.sim.run(self._all_ranks(communicators))
        self._faults.heal_all()
        self.outcome.problems += self._faults.failures
        self._check_afterwards()
        for comm in chain(*communicators, *self._survivors.values()):
            comm.close()
        self._check_nothing_is_left()

    async def _all_ranks(self, communicators: Sequence[Sequence[Communicator]]) -> None:
        await asyncio.gather(
            *(
                self._rank(number, group, comm)
                for number, group in enumerate(self.scenario.groups)
                for comm in communicators[number]
            )
        )
        while self._of_survivors:
            await self._of_survivors.pop()

    def _shrink_groups_of(self, host: str) -> None:
        """Those who are left of the groups of ``host`` go on in new ones."""
        for number, group in enumerate(self.scenario.groups):
            left = [node for node in group.hosts if node not in self._faults.crashed_hosts]
            if host in group.hosts and number not in self._survivors and len(left) > 1:
                self._shrink(number, group, left)

    def _shrink(self, number: int, group: Group, left: Sequence[str]) -> None:
        algorithm = "ring" if group.algorithm == "halving-doubling" else group.algorithm
        name, timeout_s = f"g{number}.shrunk", self.scenario.timeout_s
        smaller = self.sim.group(left, algorithm=algorithm, name=name, timeout_s=timeout_s)
        self._survivors[number] = smaller
        call = Call("allreduce", elements=2000)
        for comm in smaller:
            place = _Place(len(self.scenario.groups) + number, 0, call, comm)
            self._of_survivors.append(asyncio.ensure_future(self._operate(place)))

    async def _rank(self, number: int, group: Group, comm: Communicator) -> None:
        pending: list[asyncio.Task[None]] = []
        for place in self._places(number, group, comm):
            sleeps_s = place.call.sleeps_s
            await asyncio.sleep(sleeps_s[comm.rank] if sleeps_s else 0.0)
            if comm.nodes[comm.rank] in self._faults.crashed_hosts:
                break  # its process is gone
            task = asyncio.ensure_future(self._operate(place))
            await asyncio.sleep(0)  # calls are made in order
            pending.append(task)
            if place.call.awaited:
                await task
        for task in pending:
            await task

    def _places(self, number: int, group: Group, comm: Communicator) -> Iterator[_Place]:
        for call_number, call in enumerate(group.calls):
            yield _Place(number, call_number, call, comm)

    async def _operate(self, place: _Place) -> None:
        call, comm = place.call, place.comm
        inputs = inputs_of(call, place.number, self.scenario.seed, comm.size)
        started_s = self.sim.now_s
        self.outcome.operations += 1
        self._note(f"{place}: called")
        try:
            work = start(comm, call, inputs[comm.rank].copy(), place.number)
            if work is not None:
                result = await self._cancelled_or_done(place, work)
                self._check_result(place, inputs, result)
        except InnetError as error:
            self._on_error(place, error)
        else:
            self._note(f"{place}: done")
        took_s = self.sim.now_s - started_s
        due_s = self.scenario.timeout_s * (STAGES if call.collective == "one_sided" else 1)
        if took_s > due_s + _SLACK_S + self._faults.skew_s:
            self._problem(f"{place}: took {took_s:.3f} s, its deadline was {due_s:g} s")

    async def _cancelled_or_done(self, place: _Place, work: Operation) -> Any:
        if place.call.cancelled_by == place.comm.rank:
            await asyncio.sleep(place.call.cancelled_after_s)
            self._note(f"{place}: cancelled")
            work.cancel()
        return await work

    def _on_error(self, place: _Place, error: InnetError) -> None:
        told = f"{place}: {type(error).__name__}: {error}"
        self.outcome.failed_operations += 1
        self._note(told)
        family = (CollectiveError, TransportError)[: 2 if place.call.collective == "object" else 1]
        if not isinstance(error, family) and not self._is_dead(place):
            self._problem(f"{told} (not of the family that callers catch)")
        if not self._excuses(place, error):
            self._problem(f"{told} (nothing excuses it)")
        self._broken.add(place.group)

    def _is_dead(self, place: _Place) -> bool:
        return place.comm.nodes[place.comm.rank] in self._faults.crashed_hosts

    def _excuses(self, place: _Place, error: InnetError) -> bool:
        if place.call.collective == "mismatch" and isinstance(error, MismatchError):
            sides = (f"{size} elements" for size in (place.call.elements - 1, place.call.elements))
            return all(side in str(error) for side in sides)
        if place.call.cancelled_by == place.comm.rank and isinstance(error, Cancelled):
            return True
        healthy_s = self.sim.now_s - self._faults.last_s - self._faults.skew_s
        faulty = bool(self.scenario.faults) and (self._faults.under_way or healthy_s < _RECOVERY_S)
        crashed = not self._faults.crashed_hosts.isdisjoint(place.comm.nodes)
        return faulty or crashed or place.group in self._broken or not self.scenario.links.gentle

    def _check_result(self, place: _Place, inputs: Sequence[Array], result: Any) -> None:
        agreed = agreed_part(place.call, result)
        if agreed is not None:
            known = self._agreed.setdefault((place.group, place.number), agreed)
            if known is not agreed:  # the first has been held against the expression
                if known != agreed:
                    self._problem(f"{place}: the result differs from another rank's")
                return
        fault = fault_of(place.comm, place.call, inputs, result)
        if fault is not None:
            self._problem(f"{place}: the result {fault}")

    def _check_afterwards(self) -> None:
        """All is well again: a new group works."""
        group = self.scenario.groups[0]
        fresh = self.sim.group(
            group.hosts, algorithm=group.algorithm, name="after", timeout_s=_PATIENCE_S
        )
        call = Call("allreduce", elements=2000)
        number = len(group.calls)
        inputs = inputs_of(call, number, self.scenario.seed, len(fresh))

        async def once(comm: Communicator) -> None:
            try:
                result = await comm.iallreduce(inputs[comm.rank].copy())
            except DeadlineExceeded:
                # Where much is lost and nothing cached, a sum over sums may take hours.
                if self.scenario.links.gentle:
                    raise
                return
            self._check_result(_Place(-1, number, call, comm), inputs, result)

        self.sim.run(*(once(comm) for comm in fresh))
        for comm in fresh:
            comm.close()

    def _check_nothing_is_left(self) -> None:
        # What was held up goes on at its next node, where it may be held up again.
        late_s = self.scenario.links.reorder_delay_s if self.scenario.links.reorder else 0.0
        self.sim.run(asyncio.sleep(_SETTLING_S + _MOST_HOPS * late_s))
        for name, node in self.sim.network.nodes.items():
            node.drop_cache()
            status: dict[str, Any] = node.status()
            for table, counter in (
                ("reducer", "slots_in_use"),
                ("node", "pit_entries"),
                ("endpoint", "retained_bytes"),
            ):
                if status[table][counter]:
                    self._problem(f"{name}: {status[table][counter]} {counter} are left")
            if status["operations"]:
                self._problem(f"{name}: operations are left: {status['operations']}")
        # All nodes share the simulation's memory.
        left_bytes = status["pool_bytes_in_use"]
        if left_bytes:
            self._problem(f"{left_bytes} bytes of packets are left")

    def _on_unraisable(self, unraisable: sys.UnraisableHookArgs) -> None:
        """Something failed where nobody could be told: in a call from the packet path."""
        self._problem(f"{type(unraisable.exc_value).__name__}: {unraisable.exc_value}")

    def _note_drops(self) -> None:
        for name, node in self.sim.network.nodes.items():
            if not self.sim.network.is_alive(name):
                continue
            for link in node.status()["links"]:
                counts = {kind: link["port"][kind] for kind in _COUNTED_DROPS}
                if any(counts.values()):
                    told = ", ".join(f"{kind} {count}" for kind, count in counts.items() if count)
                    self._note(f"{name} face {link['face']}: {told}")

    def _note(self, text: str) -> None:
        self.outcome.log.append(f"{self.sim.now_s:12.6f}  {text}")

    def _problem(self, text: str) -> None:
        self._note(f"PROBLEM: {text}")
        self.outcome.problems.append(text)
