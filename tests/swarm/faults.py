"""What befalls a network."""

from __future__ import annotations

from collections.abc import Callable

import innet
from tests.swarm.scenario import Fault, LinkModel


class Faults:
    """Does to a simulation what a scenario's faults say, and undoes it.

    Attributes:
        crashed_hosts: all that ever crashed: what their programs had is gone.
        last_s: when the network was touched last.
        failures: of the simulator to do what it should.
        skew_s: how far clocks have jumped and nodes have stood still, in all.
    """

    def __init__(
        self,
        sim: innet.Simulation,
        links: LinkModel,
        note: Callable[[str], None],
        on_worker_failed: Callable[[str], None],
    ) -> None:
        self.crashed_hosts: set[str] = set()
        self.last_s = 0.0
        self.skew_s = 0.0
        self.failures: list[str] = []
        self._over = False
        self._sim = sim
        self._links = links
        self._note = note
        self._on_worker_failed = on_worker_failed
        self._down: set[tuple[str, str]] = set()
        self._changed: set[tuple[str, str]] = set()
        self._paused: dict[str, float] = {}
        self._crashed: set[str] = set()

    @property
    def under_way(self) -> bool:
        """Whether something is wrong with the network now."""
        return bool(self._down or self._changed or self._paused or self._crashed)

    def schedule(self, fault: Fault) -> None:
        """Let ``fault`` happen at its time."""
        self._sim.at(fault.time_s, self._on_time, fault)

    def heal_all(self) -> None:
        """Nothing is wrong with the network any more, nor will be."""
        for link in list(self._down):
            self._happen(Fault(0, "link_up", link))
        for link in list(self._changed):
            self._happen(Fault(0, "link_change", link, link=LinkModel()))
        for node in list(self._paused):
            self._happen(Fault(0, "resume", (node,)))
        for node in list(self._crashed):
            self._happen(Fault(0, "restart", (node,)))
        self._over = True

    def _on_time(self, fault: Fault) -> None:
        if self._over:
            return
        try:
            self._happen(fault)
        except Exception as error:  # the event loop would only print it
            self._note(f"PROBLEM: {type(error).__name__}: {error}")
            self.failures.append(f"{fault}: {type(error).__name__}: {error}")

    def _happen(self, fault: Fault) -> None:
        self._note(f"{fault.kind} {'-'.join(fault.target)}")
        self.last_s = self._sim.now_s
        match fault.kind:
            case "crash" | "restart":
                self._crash_or_restart(fault)
            case "fail_worker":
                self._fail_worker(fault.target[0])
            case "pause" | "resume":
                self._pause_or_resume(fault)
            case "advance_clock":
                self.skew_s += fault.by_s
                self._sim.advance_clock(fault.target[0], fault.by_s)
            case _:
                self._change_link(fault)

    def _crash_or_restart(self, fault: Fault) -> None:
        (node,) = fault.target
        if fault.kind == "crash" and node not in self._crashed:
            self._paused.pop(node, None)
            self._crashed.add(node)
            if node in self._sim.topology.hosts:
                self.crashed_hosts.add(node)
            self._sim.crash(node)
        elif fault.kind == "restart" and node in self._crashed:
            self._crashed.remove(node)
            self._sim.restart(node)

    def _fail_worker(self, host: str) -> None:
        if host in self.crashed_hosts:
            self._sim.fail_worker(host, "crashed")
            self._on_worker_failed(host)

    def _pause_or_resume(self, fault: Fault) -> None:
        (node,) = fault.target
        if fault.kind == "pause" and node not in self._paused and node not in self._crashed:
            self._paused[node] = self._sim.now_s
            self._sim.pause(node)
        elif fault.kind == "resume" and node in self._paused:
            self.skew_s += self._sim.now_s - self._paused.pop(node)
            self._sim.resume(node)

    def _change_link(self, fault: Fault) -> None:
        first, second = fault.target
        link = (first, second)
        if fault.kind == "link_down":
            self._down.add(link)
            self._sim.set_link_up(first, second, up=False)
        elif fault.kind == "link_up":
            self._down.discard(link)
            self._sim.set_link_up(first, second, up=True)
        else:
            model = fault.link or self._links
            (self._changed.discard if model.gentle else self._changed.add)(link)
            self._sim.change_link(
                first, second, rate_bps=model.rate_bps, loss=model.loss, corrupt=model.corrupt
            )
