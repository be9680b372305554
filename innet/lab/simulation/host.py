"""A host of a simulation, as the communicators on it see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from innet.lab.simulation.event_loop import LoopBackground, SimulatedCollector, VirtualTime
from innet.lab.simulation.network import SimulatedNetwork
from innet.node.messages import GroupFailure
from innet.node.runtime import install_rules
from innet.plans import Plan
from innet.worker.asked_objects import AskedObjects
from innet.worker.membership import Membership


class GroupOwner(Protocol):
    """Knows the groups of all hosts."""

    def leave(self, membership: Membership) -> None:
        """A rank needs nothing more of its group."""


class SimulatedHost:
    """Stands for a worker's process: its node, and the groups that it is in.

    Attributes:
        name: of the host.
        groups: the groups that it has joined and not left, by their names.
        node: its node.
        collector: takes the ends of the node's operations.
        asked_objects: tells of the objects that the node is asked for.
        settings: of the simulation.
        segment_bytes: of an array, in one packet.
        object_segment_bytes: of a published object, in one packet.
        object_key: signs this rank's objects.
        trace: none, of simulated jobs.
    """

    def __init__(
        self, name: str, network: SimulatedNetwork, time: VirtualTime, owner: GroupOwner
    ) -> None:
        """
        Args:
            name: of the host.
            network: has its node.
            time: of the simulation.
            owner: is told when it leaves a group.
        """
        self.name = name
        self.groups: dict[str, Membership] = {}
        self.node = network.nodes[name]
        self.collector = SimulatedCollector(self.node, time)
        self.asked_objects = AskedObjects(self.node)
        self.settings = network.settings
        self.segment_bytes = self.object_segment_bytes = network.segment_bytes
        self.object_key = network.keys.objects(name)
        self.trace = None
        self._time = time
        self._owner = owner
        self._backgrounds: list[LoopBackground] = []
        time.collectors[self.node.index] = self.collector

    def join(self, membership: Membership) -> None:
        """Become a member: the host's own rules of the group's plans are installed."""
        self.groups[membership.name] = membership
        for prefix, plan in membership.plans.items():
            install_rules(self.node, prefix, plan.primary_rules(self.name))

    def place(self, member: Membership, plans: Mapping[str, Plan]) -> None:
        """Ask for the sums of a group where they are made from now on."""
        member.plans = plans
        member.on_placed(plans)

    def now_s(self) -> float:
        """The simulation's time."""
        return self._time.now_s

    def background(self, name: str) -> LoopBackground:
        """What a communicator does apart from its program ends with the process."""
        made = self._time.background()
        self._backgrounds.append(made)
        return made

    def die(self) -> None:
        """The process is gone, and does nothing more."""
        for background in self._backgrounds:
            background.close()
        self._backgrounds.clear()

    def ended(self) -> frozenset[str]:
        """Nobody: a program's end here takes nothing away from others."""
        return frozenset()

    def stopped(self) -> frozenset[str]:
        """Nobody: programs here run in one process."""
        return frozenset()

    def leave_group(self, membership: Membership) -> None:
        """Leave the group; what others may still need of it stays until all have left."""
        if self.groups.pop(membership.name, None) is not None:
            self._owner.leave(membership)

    def forget(self, membership: Membership) -> None:
        """All have left the group: free what is kept for it."""
        for prefix in membership.plans:
            self.node.remove_group(prefix)
        membership.release()

    def abandon_group(self, membership: Membership, why: str) -> None:
        """End what is under way in the group, because of ``why``, and leave it."""
        self.fail(membership, why, None)
        self.leave_group(membership)

    def fail(self, membership: Membership, why: str, rank: int | None) -> None:
        """The group can go on no longer: ``rank`` of it has failed, if one has."""
        membership.failure = GroupFailure(why, rank)
        for prefix in membership.plans:
            self.node.abort(prefix, why)

    def before_close(self, hook: Callable[[], None]) -> None:
        """Nothing is closed before the simulation is."""

    def no_more_before_close(self, hook: Callable[[], None]) -> None:
        """There is nothing to take back."""
