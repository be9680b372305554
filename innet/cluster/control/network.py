"""The network as the controller knows it: lost switches and links, routes, signs of life."""

from __future__ import annotations

from collections.abc import Sequence

from innet.cluster.control.actions import Operation, Outbox
from innet.cluster.control.announcements import Announcements
from innet.cluster.control.groups import GroupRegistry
from innet.cluster.control.hosts import HostProcesses
from innet.cluster.control.live_topology import LiveTopology, Loss
from innet.cluster.control.liveness import Heartbeats, Outages, Pong, SilentWorkers
from innet.cluster.control.operations import OperationQueue
from innet.cluster.control.placements import Placements
from innet.errors import ControlError
from innet.settings import RecoverySettings
from innet.topology import Topology


class NetworkWatch:
    """Keeps groups, routes and announcements on the live part of the network."""

    def __init__(
        self,
        topology: Topology,
        placements: Placements,
        groups: GroupRegistry,
        announcements: Announcements,
        hosts: HostProcesses,
        operations: OperationQueue,
        outbox: Outbox,
        recovery: RecoverySettings,
    ) -> None:
        """Nothing is lost yet, and nobody is pinged before :meth:`watch`."""
        self._topology = topology
        self._placements = placements
        self._groups = groups
        self._announcements = announcements
        self._hosts = hosts
        self._operations = operations
        self._outbox = outbox
        self._recovery = recovery
        self._heartbeats = Heartbeats(recovery, outbox)
        self._outages = Outages(recovery, outbox)
        self._silent_workers = SilentWorkers(recovery, outbox)

    @property
    def next_round_s(self) -> float | None:
        """When :meth:`on_timer` has nodes to ping; ``None``: at no time."""
        return self._heartbeats.next_round_s

    def watch(self, now_s: float) -> None:
        """Follow processes that may hang, and links that may carry nothing.

        Silent switches and links are lost, and restored when they are heard again; silent workers
        are given up, and killed.
        """
        self._heartbeats.start(now_s)

    def on_pong(self, pong: Pong, now_s: float) -> None:
        """A node has answered a ping, or has not in time."""
        if not self._heartbeats.on_pong(pong):
            return
        self._operations.add(lambda: self._take_pong(pong, now_s))
        if self._heartbeats.ends_round():
            self._operations.add(lambda: self._end_round((), now_s))

    def on_timer(self, now_s: float) -> None:
        """Ping nodes, if that is due."""
        due_s = self._heartbeats.next_round_s
        if due_s is None or now_s < due_s:
            return
        switches = self._topology.switches
        nodes = {**dict.fromkeys(switches, 0), **self._hosts.incarnations()}
        timeouts_s = {
            **dict.fromkeys(nodes, self._silent_workers.patience_s),
            **dict.fromkeys(switches, self._recovery.heartbeat_timeout_s),
        }
        slow = self._heartbeats.slow()
        if self._heartbeats.begin_round(nodes, timeouts_s, now_s):
            self._operations.add(lambda: self._end_round(slow, now_s))

    def routes(self, node: str) -> dict[str, int]:
        """The face towards every node that ``node`` can reach now."""
        return dict(self._placements.live.next_hops[node])

    def lose_switch(self, switch: str, why: str, *, returns: bool) -> Operation[None]:
        """``switch`` is gone: its sums are made elsewhere, and routes avoid it.

        Groups whose ranks have no other path to each other end, unless it ``returns``: the launcher
        starts it again, and requests ``restore_switch`` then.

        Args:
            switch: its name.
            why: ``spine0 (pid 77) was killed by signal 9 (SIGKILL)``.
            returns: whether to wait for it.

        Raises:
            ControlError: there is no such switch.
        """
        self._require_switch(switch)
        self._outages.forget(switch)
        self._announcements.begin(switch)
        yield from self.adapt(self._placements.live.without(switch, Loss(why, returns)))

    def restore_switch(self, switch: str) -> Operation[None]:
        """``switch`` answers again, without its former state: sums and routes return to it.

        Raises:
            ControlError: there is no such switch.
        """
        self._require_switch(switch)
        self._outages.forget(switch)
        yield from self.adapt(self._placements.live.with_again(switch))

    def _require_switch(self, name: str) -> None:
        if name not in self._topology.switches:
            raise ControlError(
                f"no switch of this network is called {name!r}; there are "
                f"{', '.join(self._topology.switches)}"
            )

    def adapt(self, live: LiveTopology) -> Operation[None]:
        """Bring all nodes up to date with the network as it is now."""
        self._placements.live = live
        yield from self._groups.adapt()
        self._announcements.adapt(live)
        for node in self._hosts.incarnations():
            self._outbox.tell([node], "set_routes", routes=self.routes(node))

    def _adapt_if_changed(self, live: LiveTopology) -> Operation[None]:
        if live is not self._placements.live:
            yield from self.adapt(live)

    def stopped(self) -> list[str]:
        """The nodes whose process neither answers nor is heard by its neighbours."""
        silent = self._outages.silent(self._hosts.incarnations())
        return [node for node in silent if not self._is_heard(node)]

    def _take_pong(self, pong: Pong, now_s: float) -> Operation[None]:
        live, node, unheard = self._placements.live, pong.node, pong.unheard
        if node in self._topology.switches:
            if unheard is None:
                live = self._outages.on_switch_silent(node, live, now_s)
            else:
                live = self._outages.on_switch_answer(node, unheard, live)
            yield from self._adapt_if_changed(live)
        elif self._hosts.is_current(node, pong.incarnation):
            if unheard is not None:
                self._silent_workers.on_answer(node)
                self._outages.on_answer(node, unheard)
            elif why := self._silent_workers.on_silent(node, is_heard=self._is_heard(node)):
                yield from self._hosts.expel(node, why)

    def _end_round(self, slow: Sequence[str], now_s: float) -> Operation[None]:
        present = (*self._topology.switches, *self._hosts.incarnations())
        live = self._outages.on_round(present, slow, self._placements.live, now_s)
        yield from self._adapt_if_changed(live)

    def _is_heard(self, host: str) -> bool:
        """Whether the node of a worker lives, though its Python may not answer."""
        return self._outages.hears_any(host, _neighbours(self._topology, host))


def _neighbours(topology: Topology, node: str) -> set[str]:
    ends = ({link.a.node, link.b.node} for link in topology.links)
    return {end for pair in ends if node in pair for end in pair} - {node}
