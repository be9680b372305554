"""A host of a simulation, as the communicators on it see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from innet._native import _core
from innet.collectives.services import Services
from innet.lab.simulation.collector import SimulatedCollector
from innet.lab.simulation.loop_background import LoopBackground
from innet.node.rules import install_rules
from innet.plans import Plan
from innet.settings import Settings
from innet.worker.asked_objects import AskedObjects
from innet.worker.membership import Membership


class SimulatedHost(Services):
    """Stands for a worker's process: its node, and the groups that it is in.

    Attributes:
        name: of the host.
        groups: the groups that it has joined and not left, by their names.
    """

    trace = None

    def __init__(
        self,
        name: str,
        node: _core.SimulatedNode,
        key: _core.SigningKey,
        settings: Settings,
        segment_bytes: int,
        on_left: Callable[[Membership], None],
        now_s: Callable[[], float],
        settle: Callable[[], None],
        background: Callable[[], LoopBackground],
    ) -> None:
        """
        Args:
            name: of the host.
            node: its node.
            key: signs its objects.
            settings: of the simulation.
            segment_bytes: of an array, in one packet.
            on_left: hears that it has left a group.
            now_s: the simulation's clock.
            settle: lets the node end what needs no other.
            background: makes one for a communicator.
        """
        self.name = name
        self.groups: dict[str, Membership] = {}
        self._node = node
        self._collector = SimulatedCollector(node, settle)
        self._asked_objects = AskedObjects(node)
        self._make_background = background
        self._backgrounds: list[LoopBackground] = []
        self._key = key
        self._settings = settings
        self._segment_bytes = segment_bytes
        self._on_left = on_left
        self._now_s = now_s

    @property
    def node(self) -> _core.NodeHandle:
        """The host's node."""
        return self._node

    @property
    def collector(self) -> SimulatedCollector:
        """Where the ends of the node's operations come from."""
        return self._collector

    @property
    def asked_objects(self) -> AskedObjects:
        """Tells of the objects that the node is asked for."""
        return self._asked_objects

    @property
    def settings(self) -> Settings:
        """Settings of the simulation."""
        return self._settings

    @property
    def segment_bytes(self) -> int:
        """Bytes of an array that one packet carries."""
        return self._segment_bytes

    @property
    def object_segment_bytes(self) -> int:
        """Bytes of a published object that one packet carries."""
        return self._segment_bytes

    @property
    def object_key(self) -> _core.SigningKey:
        """What this rank's objects are signed with."""
        return self._key

    def join(self, membership: Membership) -> None:
        """Become a member: the host's own rules of the group's plans are installed."""
        self.groups[membership.name] = membership
        for prefix, plan in membership.plans.items():
            install_rules(self._node, prefix, plan.primary_rules(self.name))

    def place(self, moved: Mapping[str, Plan]) -> None:
        """Ask elsewhere for the sums of ``moved`` plans, by their prefixes."""
        for member in self.groups.values():
            if not moved.keys().isdisjoint(member.plans):
                member.plans = {
                    prefix: moved.get(prefix, plan) for prefix, plan in member.plans.items()
                }
                member.on_placed(member.plans)

    def now_s(self) -> float:
        """The simulation's time."""
        return self._now_s()

    def background(self, name: str) -> LoopBackground:
        """What a communicator does apart from its program ends with the process."""
        made = self._make_background()
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
            self._on_left(membership)

    def forget(self, membership: Membership) -> None:
        """All have left the group: free what is kept for it."""
        for prefix in membership.plans:
            self._node.remove_group(prefix)
        membership.release()

    def abandon_group(self, membership: Membership, why: str) -> None:
        """End what is under way in the group, because of ``why``, and leave it."""
        self.fail(membership, why, None)
        self.leave_group(membership)

    def fail(self, membership: Membership, why: str, rank: int | None) -> None:
        """The group can go on no longer: ``rank`` of it has failed, if one has."""
        membership.failure = (why, rank)
        for prefix in membership.plans:
            self._node.abort(prefix, why)

    def before_close(self, hook: Callable[[], None]) -> None:
        """Nothing is closed before the simulation is."""

    def no_more_before_close(self, hook: Callable[[], None]) -> None:
        """There is nothing to take back."""
