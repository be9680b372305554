"""Faults of the wires between machines, made in the namespace of the router that joins all."""

from __future__ import annotations

from tests.cluster.several_machines.machines import Machines

_ROUTER = "s0"


class Cuts:
    """Drops packets between machines without a word to anybody, as a broken cable does."""

    def __init__(self, lab: Machines) -> None:
        self._lab = lab

    async def part(self, machine: str) -> None:
        """Let no packet from or to a machine pass."""
        for way in ("from", "to"):
            await self._rule("add", way, _address(machine))

    async def rejoin(self, machine: str) -> None:
        """Let them pass again."""
        for way in ("from", "to"):
            await self._rule("del", way, _address(machine))

    async def cut_links(self, machine: str, other: str) -> None:
        """Let no UDP pass between two machines; the rest does."""
        for source, target in ((machine, other), (other, machine)):
            ends = ("from", _address(source), "to", _address(target))
            await self._rule("add", *ends, "ipproto", "udp")

    async def slow_down(self, machine: str, rate: str) -> None:
        """Limit what a machine sends and receives."""
        limit = ("root", "tbf", "rate", rate, "burst", "32kb", "latency", "100ms")
        for place, port in ((machine, "eth0"), (_ROUTER, f"eth{machine.removeprefix('h')}")):
            await self._run(place, "tc", "qdisc", "add", "dev", port, *limit)

    async def narrow(self, machine: str, mtu_bytes: int) -> None:
        """Let the way to a machine take smaller packets from now on."""
        port = f"eth{machine.removeprefix('h')}"
        await self._run(_ROUTER, "ip", "link", "set", port, "mtu", str(mtu_bytes))

    async def _rule(self, action: str, *selector: str) -> None:
        await self._run(_ROUTER, "ip", "rule", action, *selector, "blackhole")

    async def _run(self, place: str, *argv: str) -> None:
        program = self._lab.start(place, *argv)
        assert await program.ends() == 0, program.text


def _address(machine: str) -> str:
    return f"10.0.0.{int(machine.removeprefix('h')) + 1}"
