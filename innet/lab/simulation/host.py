"""A host of a simulation: the services that its communicators use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from innet.lab.simulation.event_loop import LoopBackground, SimulatedCollector, VirtualTime
from innet.lab.simulation.network import SimulatedNetwork
from innet.node.messages import GroupFailure
from innet.node.runtime import install_rules
from innet.plans import Plan, SegmentRoom
from innet.worker.collector import AskedObjects
from innet.worker.membership import Membership


class GroupOwner(Protocol):
    """The registry of the groups of all hosts."""

    def leave(self, membership: Membership) -> None:
        """A rank leaves its group."""


class SimulatedHost:
    """Stands for a worker's process: its node and its groups.

    Attributes:
        name: of the host.
        groups: the groups that it has joined and not left, by name.
        node: its node.
        collector: takes the completions of the node's operations.
        asked_objects: reports requests for objects.
        settings: of the simulation.
        segment_bytes: of an array, in one packet.
        object_segment_bytes: of a published object, in one packet.
        object_key: signs this rank's objects.
        trace: ``None``: simulated jobs have no timeline.
    """

    def __init__(
        self, name: str, network: SimulatedNetwork, time: VirtualTime, owner: GroupOwner
    ) -> None:
        """
        Args:
            name: of the host.
            network: of the simulation.
            time: of the simulation.
            owner: the registry of groups.
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

    def segment_room_beside(self, overhead_bytes: int) -> SegmentRoom:
        """The bytes of an array in one packet: packets of a simulation may be of any size."""
        return SegmentRoom(self.segment_bytes, self.segment_bytes)

    def join(self, membership: Membership) -> None:
        """Join a group: install the host's rules of the group's plans."""
        self.groups[membership.name] = membership
        for prefix, plan in membership.plans.items():
            install_rules(self.node, prefix, plan.primary_rules(self.name))

    def place(self, member: Membership, plans: Mapping[str, Plan]) -> None:
        """Request the sums of a group according to ``plans`` from now on."""
        member.plans = plans
        member.on_placed(plans)

    def now_s(self) -> float:
        """The simulation's time."""
        return self._time.now_s

    def background(self, name: str) -> LoopBackground:
        """A runner for a communicator's background actions, which ends with the process."""
        made = self._time.background()
        self._backgrounds.append(made)
        return made

    def die(self) -> None:
        """End the process: stop its background actions."""
        for background in self._backgrounds:
            background.close()
        self._backgrounds.clear()

    def stopped(self) -> frozenset[str]:
        """No host: simulated programs share one process."""
        return frozenset()

    def leave_group(self, membership: Membership) -> None:
        """Leave the group; its Data stays available until all ranks have left."""
        if self.groups.pop(membership.name, None) is not None:
            self._owner.leave(membership)

    def forget(self, membership: Membership) -> None:
        """Free the state of a group that all ranks have left."""
        for prefix in membership.plans:
            self.node.remove_group(prefix)
        membership.release()

    def abandon_group(self, membership: Membership, why: str) -> None:
        """Fail the operations of the group with ``why``, and leave it."""
        self.fail(membership, why, None)
        self.leave_group(membership)

    def fail(self, membership: Membership, why: str, rank: int | None) -> None:
        """Fail the group with ``why``; ``rank`` is the failed rank, if any."""
        membership.failure = GroupFailure(why, rank)
        for prefix in membership.plans:
            self.node.abort(prefix, why)

    def before_close(self, hook: Callable[[], None]) -> None:
        """No effect: a host closes with the simulation."""

    def no_more_before_close(self, hook: Callable[[], None]) -> None:
        """No effect: :meth:`before_close` keeps no hooks."""
