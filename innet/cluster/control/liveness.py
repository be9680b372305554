"""Detects silent nodes and dead links, and decides which of them to give up.

A hung process cannot report that it hangs, so the controller pings all nodes and compares their
answers. A switch is lost when it does not answer. A link is cut when the nodes at both its ends
answer and neither receives anything from the other: one end alone may be the fault of its node. A
worker that does not answer may be busy in a library that holds Python's interpreter; its node is a
native thread, whose packets its neighbours still receive. :class:`NetworkWatch` compares the
answers and moves groups, routes and announcements to the live part of the network.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from innet.cluster.control.actions import Operation, OperationQueue, Outbox, PingNode
from innet.cluster.control.hosts import HostProcesses, Registries
from innet.cluster.control.placements import LiveTopology, Loss, Part, Placements, silence_of
from innet.errors import ControlError
from innet.node.messages import NodeReading
from innet.settings import RecoverySettings
from innet.topology import Topology
from innet.topology.routes import Ends, ends_of


@dataclass(frozen=True, slots=True)
class Pong:
    """A node's answer to a ping, or its silence.

    Attributes:
        incarnation: of its process, as in the :class:`~innet.cluster.control.actions.PingNode`.
        unheard: the neighbours that it receives nothing from; ``None``: it did not answer.
        lost: its process closed the socket of its node: it ``refused`` a connection, or ``ended``
            one and has accepted none since.
        reading: how much the node and its links are used, if it says so.
    """

    node: str
    incarnation: int
    unheard: tuple[str, ...] | None
    reading: NodeReading | None = None
    lost: Literal["refused", "ended"] | None = None

    def about(self, neighbours: Collection[str]) -> Pong:
        """Without what the node says of others than its neighbours."""
        reading = self.reading
        if reading is not None and not reading.peers <= set(neighbours):
            reading = None
        unheard = self.unheard and tuple(peer for peer in self.unheard if peer in neighbours)
        return replace(self, unheard=unheard, reading=reading)


@dataclass(slots=True)
class _Round:
    """Nodes that have not answered yet."""

    pinged: dict[str, int] = field(default_factory=dict)
    is_over: bool = True


class Heartbeats:
    """Pings nodes in rounds, each ``heartbeat_interval_s``.

    A node that takes longer than a round is not pinged again before it has answered or timed out.
    """

    def __init__(self, settings: RecoverySettings, outbox: Outbox) -> None:
        """Nothing is pinged before :meth:`start`."""
        self._settings = settings
        self._outbox = outbox
        self._round = _Round()
        self.next_round_s: float | None = None
        """When the next round begins."""

    def start(self, now_s: float) -> None:
        """Begin to ping. Safe to call twice."""
        if self.next_round_s is None:
            self.next_round_s = now_s + self._settings.heartbeat_interval_s

    def slow(self) -> tuple[str, ...]:
        """The nodes that have not answered since they were pinged."""
        return tuple(self._round.pinged)

    def begin_round(
        self, nodes: Mapping[str, int], timeouts_s: Mapping[str, float], now_s: float
    ) -> bool:
        """Ping the ``nodes`` (with incarnations) that owe no answer; whether some owed one."""
        was_open = not self._round.is_over
        self.next_round_s = now_s + self._settings.heartbeat_interval_s
        for node, incarnation in self._round.pinged.copy().items():
            if nodes.get(node) != incarnation:  # its process is gone, and owes nothing
                del self._round.pinged[node]
        for node, incarnation in nodes.items():
            if node not in self._round.pinged:
                self._round.pinged[node] = incarnation
                self._outbox.put(PingNode(node, incarnation, timeouts_s[node]))
        self._round.is_over = not self._round.pinged
        return was_open

    def on_pong(self, pong: Pong) -> bool:
        """Whether the pong is of the present process, and the first one to its ping."""
        if self._round.pinged.get(pong.node) != pong.incarnation:
            return False
        del self._round.pinged[pong.node]
        return True

    def ends_round(self) -> bool:
        """Whether all nodes have answered, for the first time in this round."""
        if self._round.is_over or self._round.pinged:
            return False
        self._round.is_over = True
        return True


@dataclass(slots=True)
class _Silence:
    since_s: float
    given_up: bool = False


class Outages:
    """Tracks silent switches and links; its methods return the resulting network.

    The network avoids silent parts. After ``recovery.partition_timeout_s`` a silent part counts as
    lost, and ranks without another path receive an error. A cut link is used again when both its
    ends have reported that they receive from each other.
    """

    def __init__(self, settings: RecoverySettings, outbox: Outbox) -> None:
        """Nothing is silent yet."""
        self._settings = settings
        self._outbox = outbox
        self._unheard: dict[str, frozenset[str]] = {}
        self._slow: set[str] = set()
        self._last_round_s: float | None = None
        self._silent: dict[Part, _Silence] = {}
        self._unanswering: set[str] = set()

    def on_switch_silent(self, switch: str, live: LiveTopology, now_s: float) -> LiveTopology:
        """``switch`` has not answered in time."""
        self._unheard.pop(switch, None)
        self._unanswering.add(switch)
        if switch in live.lost:
            return live
        loss = Loss(silence_of(switch, self._settings.heartbeat_timeout_s), returns=True)
        what = f"switch {loss.why}; the network routes round it"
        self._outbox.report("switch_lost", what, node=switch, returns=True)
        self._silent[switch] = _Silence(now_s)
        return live.without(switch, loss)

    def on_switch_answer(
        self, switch: str, unheard: Iterable[str], live: LiveTopology
    ) -> LiveTopology:
        """A switch has answered (:meth:`on_answer`); it may have been silent before."""
        self.on_answer(switch, unheard)
        if switch not in self._unanswering:
            return live
        self._unanswering.remove(switch)
        self.forget(switch)
        if switch not in live.lost:
            return live
        what = f"switch {switch} answers again; sums and routes return to it"
        self._outbox.report("switch_restored", what, node=switch)
        return live.with_again(switch)

    def on_answer(self, node: str, unheard: Iterable[str]) -> None:
        """``node`` has answered that it receives nothing from its neighbours ``unheard``."""
        self._unheard[node] = frozenset(unheard)
        self._slow.discard(node)

    def on_round(
        self, present: Collection[str], slow: Collection[str], live: LiveTopology, now_s: float
    ) -> LiveTopology:
        """A round of pings is over.

        Args:
            present: the running nodes; answers of all others are dropped.
            slow: nodes that have not answered yet. Their earlier answers change the state of no
                link: such a node may be stopped, and its neighbours then receive nothing from it.
        """
        self._slow.update(slow)
        for node in set(self._unheard).difference(present):
            del self._unheard[node]
        return self._give_up_overdue(self._compare_links(live, now_s), now_s)

    def hears_any(self, node: str, neighbours: Iterable[str]) -> bool:
        """Whether one of ``neighbours`` that answers receives packets from ``node``."""
        return any(self._hears(neighbour, node) for neighbour in neighbours)

    def silent(self, nodes: Iterable[str]) -> list[str]:
        """The ``nodes`` that did not answer in the last round."""
        return [node for node in nodes if node in self._slow]

    def forget(self, switch: str) -> None:
        """Forget the silence of ``switch``, whose state is known from elsewhere."""
        self._silent.pop(switch, None)

    def _compare_links(self, live: LiveTopology, now_s: float) -> LiveTopology:
        cut = {
            ends_of(node, peer)
            for node, peers in self._unheard.items()
            for peer in peers
            if node in self._unheard.get(peer, ())
        }
        known = {part for part in self._silent if not isinstance(part, str)}
        for ends in sorted(cut - known):
            if not self._slow.isdisjoint(ends):
                continue
            loss = self._cut(ends)
            what = f"the link {loss.why}; the network routes round it"
            self._outbox.report("link_lost", what, ends=list(ends))
            self._silent[ends] = _Silence(now_s)
            live = live.without(ends, loss)
        for ends in sorted(known):
            if self._hears(*ends) and self._hears(*reversed(ends)):
                what = f"the link {'--'.join(ends)} carries packets again"
                self._outbox.report("link_restored", what, ends=list(ends))
                del self._silent[ends]
                live = live.with_again(ends)
        return live

    def _hears(self, node: str, peer: str) -> bool:
        return self._answers(node) and peer not in self._unheard[node]

    def _answers(self, node: str) -> bool:
        return node in self._unheard and node not in self._slow

    def _give_up_overdue(self, live: LiveTopology, now_s: float) -> LiveTopology:
        patience_s = self._settings.partition_timeout_s
        round_s = 0.0 if self._last_round_s is None else now_s - self._last_round_s
        self._last_round_s = now_s
        for part, silence in self._silent.items():
            if not isinstance(part, str) and not all(map(self._answers, part)):
                live = self._wait_for_witnesses(part, silence, round_s, live, now_s)
            elif not silence.given_up and now_s - silence.since_s >= patience_s:
                silence.given_up = True
                live = live.without(part, Loss(silence_of(part, patience_s), returns=False))
        return live

    def _wait_for_witnesses(
        self, ends: Ends, silence: _Silence, round_s: float, live: LiveTopology, now_s: float
    ) -> LiveTopology:
        """Do not count time in which an end itself may be why the other receives nothing.

        When the process of an end has ended, its successor starts a new detection.
        """
        silence.since_s += round_s
        if silence.given_up and not all(end in self._unheard for end in ends):
            silence.given_up = False
            silence.since_s = now_s
            return live.without(ends, self._cut(ends))
        return live

    def _cut(self, ends: Ends) -> Loss:
        return Loss(silence_of(ends, self._settings.link_timeout_s), returns=True)


class SilentWorkers:
    """Decides which workers that do not answer are dead or stopped, and which are only busy."""

    def __init__(self, settings: RecoverySettings, outbox: Outbox) -> None:
        """``settings`` say how long a worker may be silent."""
        self._settings = settings
        self._outbox = outbox
        self._silent_s: dict[str, float] = {}
        self._busy: set[str] = set()

    @property
    def patience_s(self) -> float:
        """How long an answer may take before :meth:`on_silent` is called."""
        return min(self._settings.worker_timeout_s, self._settings.interpreter_timeout_s)

    def on_silent(self, node: str, *, is_heard: bool) -> str | None:
        """``node`` has not answered for :attr:`patience_s` more; why to expel it, if so.

        Args:
            node: a worker's.
            is_heard: a neighbour receives packets from it.
        """
        settings = self._settings
        self._silent_s[node] = silent_s = self._silent_s.get(node, 0.0) + self.patience_s
        if not is_heard:
            if silent_s >= settings.worker_timeout_s:
                return (
                    f"has not answered for {settings.worker_timeout_s:g} s "
                    "(recovery.worker_timeout_s): its process is stopped or cut off"
                )
        elif silent_s >= settings.interpreter_timeout_s:
            return (
                f"has not answered for {settings.interpreter_timeout_s:g} s "
                "(recovery.interpreter_timeout_s): a call holds Python's interpreter"
            )
        elif node not in self._busy and silent_s > settings.link_timeout_s:
            self._busy.add(node)
            what = (
                f"{node} has not answered for {silent_s:g} s, but its node is alive: a call holds "
                "Python's interpreter. It is left alone, unless recovery.interpreter_timeout_s is "
                "set"
            )
            self._outbox.report("worker_busy", what, node=node)
        return None

    def on_answer(self, node: str) -> None:
        """``node`` has answered."""
        self._silent_s.pop(node, None)
        self._busy.discard(node)


class NetworkWatch:
    """Keeps groups, routes and announcements on the live part of the network."""

    def __init__(
        self,
        topology: Topology,
        registries: Registries,
        placements: Placements,
        hosts: HostProcesses,
        operations: OperationQueue,
        recovery: RecoverySettings,
    ) -> None:
        """Nothing is lost yet, and no node is pinged before :meth:`watch`."""
        self._topology = topology
        self._placements = placements
        self._groups = registries.groups
        self._announcements = registries.announcements
        self._hosts = hosts
        self._operations = operations
        self._outbox = outbox = registries.outbox
        self._recovery = recovery
        self._heartbeats = Heartbeats(recovery, outbox)
        self._outages = Outages(recovery, outbox)
        self._silent_workers = SilentWorkers(recovery, outbox)

    @property
    def next_round_s(self) -> float | None:
        """When :meth:`on_timer` has nodes to ping; ``None``: at no time."""
        return self._heartbeats.next_round_s

    def watch(self, now_s: float) -> None:
        """Begin to detect hung processes and dead links.

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
            why: ``spine0 (pid 77) was killed by signal 9 (SIGKILL)``.
            returns: whether to wait for it.
        """
        self._require_switch(switch)
        self._outages.forget(switch)
        self._announcements.begin(switch)
        yield from self.adapt(self._placements.live.without(switch, Loss(why, returns)))

    def restore_switch(self, switch: str) -> Operation[None]:
        """``switch`` answers again, without its former state: sums and routes return to it."""
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
        """The nodes whose process does not answer and whose neighbours receive nothing from it."""
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
            elif pong.lost is not None:
                # A relay to another machine accepts connections in place of a process that is gone.
                if pong.lost == "refused" or not self._is_heard(node):
                    yield from self._hosts.replaced(node)
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
