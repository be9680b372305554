"""The controller of a simulated network: the product's registries, without messages.

Groups, pools and the live network are those of :mod:`innet.cluster.control`. A run's controller
sends routes and rules to nodes. Simulated nodes look most of them up when they need them
(:class:`~innet.lab.simulation.network.SharedTables`); :class:`SimulatedPlacements` installs the
others. :class:`Recovery` computes when a controller would detect a loss; there are no heartbeats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from innet.cluster.control.actions import Compute, Operation, Outbox, Send
from innet.cluster.control.group_keys import GroupKeys
from innet.cluster.control.group_plans import Group, GroupPlans
from innet.cluster.control.groups import GroupRegistry
from innet.cluster.control.jobs import Job, JobRegistry
from innet.cluster.control.placements import (
    LiveTopology,
    Loss,
    MessagesTo,
    Part,
    Placements,
    silence_of,
)
from innet.cluster.control.pools import PoolRegistry
from innet.cluster.control.sum_mover import SumMover
from innet.errors import SimulationError
from innet.lab.simulation.event_loop import VirtualTime
from innet.lab.simulation.host import SimulatedHost
from innet.lab.simulation.jobs import SimulatedJob
from innet.lab.simulation.network import SimulatedNetwork
from innet.node.messages import NodeReading, PoolMessage
from innet.node.runtime import install_rules
from innet.plans import Plan
from innet.worker.membership import Membership

T = TypeVar("T")

_DEFAULT_JOB = "j1"
_END_NOTICED_S = 0.01
"""Time until a launcher has detected the end of a process and informed all nodes."""


class SimulatedPlacements(Placements):
    """Installs rules and pools on the live nodes at once, and moves them when those change."""

    def __init__(self, network: SimulatedNetwork, outbox: Outbox) -> None:
        """``network`` has no losses yet."""
        super().__init__(LiveTopology(network.topology), outbox)
        self._network = network
        self._served: tuple[PoolMessage, ...] = ()
        self._pools_on: dict[str, set[str]] = {}
        self._placed: dict[str, Plan] = {}
        self._ruled: dict[str, set[str]] = {}

    def install(
        self, plans: Mapping[str, Plan], _keys: MessagesTo, _unawaited: Collection[str]
    ) -> Operation[list[str]]:
        """Install the rules of ``plans`` on their nodes."""
        for prefix, plan in plans.items():
            self._placed[prefix] = plan
            self._ruled[prefix] = set()
            self._network.tables.add_plan(prefix, plan)
            for switch in self._network.topology.switches:
                self._install(switch, prefix)
        yield from ()
        return []

    def remove(self, plans: Mapping[str, Plan]) -> None:
        """Remove the rules of ``plans`` from all switches."""
        for prefix in plans:
            self._network.tables.remove_plan(prefix)
            del self._placed[prefix]
            for switch in self._ruled.pop(prefix):
                if self._network.is_alive(switch):
                    self._network.nodes[switch].remove_group(prefix)

    def update_switches(self, plans: Mapping[str, Plan], _keys: MessagesTo) -> Operation[None]:
        """Update the routes to the live network, and move the sums of ``plans``."""
        tables = self._network.tables
        for node, prefix, face in tables.change_routes(self.live.lost, self.live.cut):
            if self._network.is_alive(node):
                self._network.nodes[node].remove_route(prefix, face)
        for prefix, plan in plans.items():
            if plan != self._placed[prefix]:
                self._move(prefix, plan)
        yield from ()

    def open_pools(self, pools: Sequence[PoolMessage]) -> Operation[None]:
        """Let all live switches serve ``pools`` and no others."""
        self._served = tuple(pools)
        for switch in self._network.topology.switches:
            self._serve_pools(switch)
        yield from ()

    def close_pools(self, pools: Sequence[PoolMessage]) -> Operation[None]:
        """Let all live switches serve ``pools`` and no others."""
        return self.open_pools(pools)

    def placed(self, prefixes: Iterable[str]) -> dict[str, Plan]:
        """The present placement of a group's plans."""
        return {prefix: self._placed[prefix] for prefix in prefixes}

    def restore(self, node: str) -> None:
        """Install the rules and pools of a restarted node."""
        for prefix in self._placed:
            self._install(node, prefix)
        if node in self._network.topology.switches:
            self._pools_on.pop(node, None)
            self._serve_pools(node)

    def _serve_pools(self, switch: str) -> None:
        if not self._network.is_alive(switch):
            return
        node = self._network.nodes[switch]
        wanted = {pool.prefix for pool in self._served}
        for prefix in self._pools_on.get(switch, set()) - wanted:
            node.remove_job(prefix)
        self._pools_on[switch] = wanted
        for pool in self._served:
            node.install_job(pool.prefix, pool.weight, None, [pool.key.native()])
            self._network.set_admission(switch, pool.prefix, pool.hosts)

    def _install(self, node: str, prefix: str) -> None:
        rules = self._placed[prefix].primary_rules(node)
        if rules and self._network.is_alive(node):  # otherwise when it restarts
            self._ruled[prefix].add(node)
            install_rules(self._network.nodes[node], prefix, rules)

    def _move(self, prefix: str, placed: Plan) -> None:
        before, self._placed[prefix] = self._placed[prefix], placed
        told = self._network.tables.change_plan(prefix, placed)
        # Switches first: hosts request sums as soon as they know the place.
        for node in (*self._network.topology.switches, *self._network.topology.hosts):
            if not self._network.is_alive(node):
                continue
            here = placed.primary_rules(node)
            made = {rule.interval for rule in here}
            known = told.get(node, set()) | {rule.interval for rule in before.primary_rules(node)}
            changed = [rule for rule in here if rule not in before.primary_rules(node)]
            changed += [placed.fallback(node, interval) for interval in sorted(known - made)]
            install_rules(self._network.nodes[node], prefix, changed)
            if changed and node in self._network.topology.switches:
                self._ruled[prefix].add(node)


class SimulatedControl:
    """Manages the groups and pools of a simulation, and reacts to failures of its nodes.

    Attributes:
        hosts: by name; their creator adds them.
        pools: the pools of blocks and their members.
        network: the controlled network.
        time: of the simulation.
    """

    def __init__(
        self,
        network: SimulatedNetwork,
        time: VirtualTime,
        jobs: Sequence[SimulatedJob],
        measures_load: bool = False,
    ) -> None:
        """
        Args:
            network: without losses.
            time: of the simulation.
            jobs: that share the network; the other hosts are one more job.
            measures_load: whether sums are placed and moved by what others use of the links.
        """
        self.hosts: dict[str, SimulatedHost] = {}
        self.network = network
        self.time = time
        self._outbox = Outbox()
        self._placements = SimulatedPlacements(network, self._outbox)
        registry = _registry_of(jobs, network.topology.hosts)
        self._groups = GroupRegistry(
            registry,
            GroupPlans(network.topology),
            self._placements,
            GroupKeys(None, self._outbox),
            self._outbox,
        )
        self.pools = PoolRegistry(self._placements)
        self._recovery = Recovery(self)
        self._leaving: dict[tuple[str, int, str], Membership] = {}
        self._mover = SumMover(
            network.topology,
            (registry, self._groups, self.pools),
            self._placements,
            network.settings.placement,
            self._outbox,
            counts_all=True,
        )
        if measures_load:
            self._groups.load_beside = self._mover.load_beside
            self._measure()

    def _measure(self) -> None:
        """Read the counters of all links, review the placement of sums, and again later."""
        for node, reading in self._readings().items():
            self._mover.on_reading(node, reading)
        self._mover.begins_review(self.time.now_s)
        self._mover.review()
        self._tell_hosts()
        self.time.deliver_ended()
        self.time.at(self.time.now_s + self.network.settings.placement.interval_s, self._measure)

    def _readings(self) -> dict[str, NodeReading]:
        """The report that each node would send, with its links only."""
        found: dict[str, NodeReading] = {}
        for (source, to), counters in self.network.link_counters().items():
            reading = found.setdefault(source, NodeReading(time_s=self.time.now_s, cpu_s=0.0))
            reading.sent_bytes[to] = counters["sent_bytes"]
        return found

    def join(self, name: str, algorithm: str, members: tuple[str, ...]) -> list[Membership]:
        """Make a group: the membership of each rank.

        Raises:
            PlanError: the algorithm is unknown or does not fit.
            SimulationError: a host cannot be in it.
        """
        for host in members:
            self._require_free(host, name)
        self._require_one_job(members)
        group: Group | None = None
        for host in members:
            group = _completed(self._groups.admit(name, algorithm, members, host))
        assert group is not None
        memberships = []
        for rank, host in enumerate(members):
            membership = Membership(
                name, group.number, members, rank, group.placed, load=group.load
            )
            self.hosts[host].join(membership)
            memberships.append(membership)
        return memberships

    def leave(self, membership: Membership) -> None:
        """Let a rank leave its group; when all ranks have left, free the group's state."""
        host = membership.nodes[membership.rank]
        key = membership.name, membership.number, host
        self._leaving[key] = membership
        missing = self._groups.leave(*key)
        self._tell_hosts()
        if not missing and key in self._leaving:  # the group has failed before
            self.hosts[host].forget(self._leaving.pop(key))

    def fail(self, host: str, why: str) -> None:
        """Report to the groups of a host that its process has ended."""
        self._renew(host)
        self._groups.fail(host, why)
        self._tell_hosts()

    def crash(self, node: str) -> None:
        """Crash a node, with the loss of its state."""
        if node in self.hosts:
            self.hosts[node].die()
        self.network.crash(node)
        if node in self.hosts:
            self.run(self.pools.leave_all(node))
        else:
            self._recovery.on_crash(node)
        self.time.deliver_ended()

    def restart(self, node: str) -> None:
        """Restart a crashed node with empty tables."""
        self.network.restart(node)
        self._placements.restore(node)
        if node in self.hosts:
            self._renew(node)
        else:
            self._recovery.on_restart(node)

    def on_silence(self, part: Part) -> None:
        """React to a node that hangs, or a link that is down."""
        if part not in self.hosts:
            self._recovery.on_silence(part)

    def on_sound(self, part: Part) -> None:
        """React to a node that answers again, or a link that is up again."""
        if part not in self.hosts:
            self._recovery.on_sound(part)

    def adapt(self, change: Callable[[LiveTopology], LiveTopology]) -> None:
        """Adapt to a changed network: move sums, and end separated groups."""
        self._placements.live = change(self._placements.live)
        self.run(self._groups.adapt())
        self.time.deliver_ended()

    def run(self, operation: Operation[T]) -> T:
        """Complete an operation of a registry, and send its messages to the hosts."""
        result = _completed(operation)
        self._tell_hosts()
        return result

    def _renew(self, host: str) -> None:
        """Admit a new process on a failed host, whose groups have ended."""
        if host in self._groups.failures():
            self._groups.renew(host, "was started anew")

    def _tell_hosts(self) -> None:
        for action in self._outbox.take():
            if isinstance(action, Send):
                for method, told in action.messages:
                    self._tell(self.hosts[action.node], method, **told)
                self._outbox.sent(action.number, ())
            elif isinstance(action, Compute):
                self.run(self._mover.on_compared(action.function(), self.time.now_s))

    def _tell(self, host: SimulatedHost, method: str, group: str, number: int, **told: Any) -> None:
        if method == "end_group":
            host.forget(self._leaving.pop((group, number, host.name)))
            return
        member = host.groups.get(group)
        if member is None or member.number != number:
            return
        if method == "fail_group":
            if member.failure is None:
                host.fail(member, told["why"], told["rank"])
        else:
            assert method == "place_group", method
            host.place(member, self._placements.placed(told["plans"]))

    def _require_one_job(self, hosts: Sequence[str]) -> None:
        jobs = {self.network.keys.job_of(host) for host in hosts}
        if len(jobs) > 1:
            names = ", ".join(sorted("none" if job is None else job.name for job in jobs))
            raise SimulationError(
                f"a group's hosts belong to one job; {', '.join(hosts)} are of: {names}"
            )

    def require_host(self, host: str) -> None:
        """Check that ``host`` exists.

        Raises:
            SimulationError: it does not.
        """
        if host not in self.hosts:
            topology = self.network.topology
            raise SimulationError(
                f"{host!r} is not a host of {topology.name}; its hosts: {', '.join(topology.hosts)}"
            )

    def _require_free(self, host: str, group: str) -> None:
        self.require_host(host)
        if not self.network.is_alive(host):
            raise SimulationError(
                f"{host} has crashed, and cannot join a new group; leave it out, or "
                f"start it again: sim.restart({host!r})"
            )
        if group in self.hosts[host].groups:
            raise SimulationError(
                f"{host} is in group {group!r} already; give this one another name"
            )


class Recovery:
    """Changes the live network when a controller would detect a failure of a switch or link.

    A failure that ends before its detection has no effect.
    """

    def __init__(self, control: SimulatedControl) -> None:
        self._control = control
        self._settings = control.network.settings.recovery
        self._changes: Counter[Part] = Counter()
        self._silent: set[Part] = set()

    def on_crash(self, switch: str) -> None:
        """The process of a switch has ended, and may return."""
        self._silent.discard(switch)
        loss = Loss(f"{switch} crashed", returns=True)
        self._later(switch, _END_NOTICED_S, lambda left: left.without(switch, loss))

    def on_restart(self, switch: str) -> None:
        """A switch has restarted and registers."""
        self._later(switch, 0.0, lambda left: left.with_again(switch))

    def on_silence(self, part: Part) -> None:
        """A switch hangs, or a link is down."""
        if part in self._silent:
            return
        self._silent.add(part)
        link = not isinstance(part, str)
        patience_s = self._settings.partition_timeout_s
        known_s = self._settings.link_timeout_s if link else self._settings.heartbeat_timeout_s
        gone = Loss(silence_of(part, known_s), returns=True)
        given_up = Loss(silence_of(part, patience_s), returns=False)
        self._later(part, known_s, lambda left: left.without(part, gone))
        if patience_s != float("inf"):
            self._also_later(part, known_s + patience_s, lambda left: left.without(part, given_up))

    def on_sound(self, part: Part) -> None:
        """A silent switch answers again, or a link is up again."""
        if part not in self._silent:
            return
        self._silent.remove(part)
        heard_s = self._settings.heartbeat_interval_s
        self._later(part, heard_s, lambda left: left.with_again(part))

    def _later(
        self, part: Part, after_s: float, to: Callable[[LiveTopology], LiveTopology]
    ) -> None:
        self._changes[part] += 1
        self._also_later(part, after_s, to)

    def _also_later(
        self, part: Part, after_s: float, to: Callable[[LiveTopology], LiveTopology]
    ) -> None:
        number = self._changes[part]

        def happen() -> None:
            if self._changes[part] == number:
                self._control.adapt(to)

        if after_s > 0:
            time = self._control.time
            time.at(time.now_s + after_s, happen)
        else:
            happen()


def _registry_of(jobs: Sequence[SimulatedJob], hosts: Sequence[str]) -> JobRegistry:
    """The jobs of a simulation, and a default job of the other hosts."""
    of_jobs = {host for job in jobs for host in job.hosts}
    others = tuple(host for host in hosts if host not in of_jobs)
    registry = JobRegistry(hosts)
    registry.restore(
        [
            *(Job(job.name, job.prefix, job.hosts, job.weight) for job in jobs),
            Job(_DEFAULT_JOB, f"/{_DEFAULT_JOB}", others, 1),
        ],
        admitted=len(jobs) + 1,
    )
    return registry


def _completed(operation: Operation[T]) -> T:
    """The result of an operation that does not wait for a node."""
    try:
        next(operation)
    except StopIteration as ended:
        result: T = ended.value
        return result
    raise AssertionError("simulated nodes receive messages at once; no operation waits")
