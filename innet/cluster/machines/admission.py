"""Decides which machines may join, and tracks connected and lost ones, without input and output.

A machine's secret is bound to the CURVE key of the agent that first used it. From then on only that
key identifies the machine, over any number of connections.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from innet.cluster.machines.launcher_identity import MachineCredential
from innet.cluster.machines.messages import Heartbeats, JoinRefusal, JoinRequest, RefusalReason
from innet.topology.names import natural_key

ENDED: Final = "the network was taken down"
LAUNCHER_ENDED: Final = "its launcher has ended, and may be started again"


@dataclass(frozen=True, slots=True)
class Peer:
    """Where a message comes from.

    Attributes:
        connection: the connection, as ZeroMQ's ROUTER numbers it.
        key: the CURVE key, in Z85, that the connection has proven.
        address: of the other end, for people.
        descriptor: of the connection; -1: unknown.
    """

    connection: bytes
    key: str
    address: str
    descriptor: int = -1


@dataclass(frozen=True, slots=True)
class Admitted:
    """A machine has joined.

    Attributes:
        is_resumed: its session goes on; otherwise it begins.
    """

    machine: str
    is_resumed: bool


@dataclass(frozen=True, slots=True)
class Lost:
    """The session of a machine is over; ``connection``: its last one, if it is not closed."""

    machine: str
    reason: str
    connection: bytes | None = None


@dataclass(slots=True)
class _Session:
    id: str
    connection: bytes | None
    """``None``: interrupted; the agent may come back."""
    address: str
    heard_at_s: float
    descriptor: int


@dataclass(slots=True)
class _Machine:
    credential: MachineCredential
    session: _Session | None = None


class Admission:
    """The machines of one network."""

    def __init__(
        self,
        credentials: Mapping[str, MachineCredential],
        *,
        network: str,
        version: str,
        heartbeats: Heartbeats,
    ) -> None:
        """
        Args:
            credentials: of each machine, by its name.
            version: of innet here; machines have the same.
        """
        self._network = network
        self._version = version
        self._heartbeats = heartbeats
        names = sorted(credentials, key=natural_key)
        self._machines = {name: _Machine(credentials[name]) for name in names}
        self._by_connection: dict[bytes, str] = {}
        self._is_ending = False

    @property
    def machines(self) -> tuple[str, ...]:
        """All machines, in natural order."""
        return tuple(self._machines)

    @property
    def credentials(self) -> dict[str, MachineCredential]:
        """How each machine proves which one it is, by its name."""
        return {name: machine.credential for name, machine in self._machines.items()}

    @property
    def missing(self) -> tuple[str, ...]:
        """Machines without a session, in natural order."""
        return tuple(name for name, machine in self._machines.items() if machine.session is None)

    def connection_of(self, machine: str) -> bytes | None:
        """The connection of a machine's session; ``None`` without one, or while interrupted."""
        session = self._machines[machine].session
        return None if session is None else session.connection

    def descriptors(self) -> set[int]:
        """Of the connections of machines."""
        sessions = (machine.session for machine in self._machines.values())
        return {each.descriptor for each in sessions if each and each.connection is not None}

    def descriptor_of(self, machine: str) -> int:
        """Of a machine's connection; -1 without one."""
        session = self._machines[machine].session
        return -1 if session is None or session.connection is None else session.descriptor

    # Joining

    def candidate(self, request: JoinRequest, key: str) -> str | None:
        """The machine that a request would become, whatever stands against that.

        The one that its key is bound to; then the one that it prefers, and the first that no key
        is bound to.
        """
        proven = [name for name in self._machines if self._has_secret(request, name)]
        bound = [name for name in proven if self._key_of(name) == key]
        free = [name for name in proven if self._key_of(name) is None]
        preferred = [name for name in free if name == request.preferred]
        return next(iter([*bound, *preferred, *free, *proven]), None)

    def join(self, request: JoinRequest, peer: Peer, now_s: float) -> Admitted | JoinRefusal:
        """Admit a machine, or refuse it."""
        name = self.candidate(request, peer.key)
        if name is None:
            return self._without_secret(request)
        refusal = self._refusal(name, request, peer)
        if refusal is not None:
            return refusal
        machine = self._machines[name]
        if machine.credential.key is None:
            machine.credential = MachineCredential(
                secret=machine.credential.secret,
                key=peer.key,
                bound_from=peer.address,
                is_name_given=len(request.machines) > 1,
            )
        session = machine.session
        is_resumed = session is not None and session.id == request.session
        if session is not None and session.connection is not None:
            del self._by_connection[session.connection]
        machine.session = _Session(
            request.session, peer.connection, peer.address, now_s, peer.descriptor
        )
        self._by_connection[peer.connection] = name
        return Admitted(name, is_resumed)

    def moved(self, request: JoinRequest, peer: Peer) -> Lost | None:
        """End the session that a request resumes, if its machine has another address now.

        Links lead to the address that the machine joined from.
        """
        name = self.candidate(request, peer.key)
        if name is None or self._key_of(name) != peer.key:
            return None
        session = self._machines[name].session
        if session is None or session.id != request.session or session.address == peer.address:
            return None
        return self.end(
            name, f"machine {name} has another address: {peer.address}, before {session.address}"
        )

    def _has_secret(self, request: JoinRequest, name: str) -> bool:
        offered = request.machines.get(name, "")
        secret = self._machines[name].credential.secret
        return hmac.compare_digest(offered.encode(), secret.encode())

    def _key_of(self, name: str) -> str | None:
        return self._machines[name].credential.key

    def _without_secret(self, request: JoinRequest) -> JoinRefusal:
        """To those without a secret: nothing that they did not say themselves."""
        if len(request.machines) == 1 and not self._machines.keys() & request.machines.keys():
            name = next(iter(request.machines))
            return _refusal(
                "machine",
                f"this network has no machine {name!r}, and cannot grow while it runs. Join with "
                "one of the names in the token file (--name), or with none",
            )
        return _refusal(
            "secret",
            "the token file is not that of this network, which was perhaps launched again since. "
            "Copy the file that `innet up --listen` has written now",
        )

    def _refusal(self, name: str, request: JoinRequest, peer: Peer) -> JoinRefusal | None:
        machine = self._machines[name]
        if self._is_ending:
            return _refusal("ending", f"network {self._network} is being taken down")
        if request.network != self._network:
            return _refusal(
                "network",
                f"this is network {self._network}, expected {request.network}. Take the token file "
                "of the network that the machine is for",
            )
        if request.version != self._version:
            return _refusal(
                "version",
                f"machine {name} has innet {request.version}, the launcher {self._version}. "
                f"Install innet {self._version} on the machine",
            )
        if machine.credential.key not in (peer.key, None):
            return self._taken(name, machine.credential, request)
        session = machine.session
        if request.is_resumption and (session is None or session.id != request.session):
            return _refusal(
                "lost",
                f"the session of machine {name} is over. Its agent joins anew, or start it again",
            )
        if session is None or session.id == request.session or session.connection is None:
            return None
        return _refusal(
            "connected",
            f"an agent of machine {name} is connected from {session.address}. End it first, or "
            "join with another --name",
        )

    def _taken(self, name: str, bound: MachineCredential, request: JoinRequest) -> JoinRefusal:
        if len(request.machines) > 1:
            return _refusal(
                "full",
                f"all machines of network {self._network} have joined, and a running network "
                "cannot grow. Add a host to its topology file, then `innet down` and `innet up`; "
                "or start an agent again where its key is (FILE.NAME.key)",
            )
        if bound.is_name_given:
            return _refusal(
                "other-key",
                f"an agent at {bound.bound_from} has joined without --name before, and was given "
                f"{name}. Join with another --name, or start all agents with one, or none",
            )
        return _refusal(
            "other-key",
            f"the secret of machine {name} was used from {bound.bound_from} with another key. If "
            f"that was you, join with the key file written there (FILE.{name}.key); if not, "
            "somebody has a copy of the token file: take the network down, and launch it again",
        )

    # Messages, silence, ends

    def heard(self, peer: Peer, now_s: float) -> str | None:
        """The machine that sent a message; ``None``: the sender has not joined."""
        name = self._by_connection.get(peer.connection)
        if name is None or self._key_of(name) != peer.key:
            return None
        session = self._machines[name].session
        assert session is not None
        session.heard_at_s = now_s
        return name

    def on_interrupted(self, connection: bytes) -> None:
        """A connection is closed; its agent may come back over another one."""
        name = self._by_connection.pop(connection, None)
        if name is not None:
            session = self._machines[name].session
            assert session is not None
            session.connection = None

    def end(self, machine: str, reason: str) -> Lost | None:
        """End the session of a machine; ``None`` if it has none."""
        found = self._machines[machine]
        if found.session is None:
            return None
        connection, found.session = found.session.connection, None
        if connection is not None:
            del self._by_connection[connection]
        return Lost(machine, reason, connection)

    def excuse(self, pause_s: float) -> None:
        """Account for a pause of the launcher, in which it received no heartbeat."""
        for machine in self._machines.values():
            if machine.session is not None:
                machine.session.heard_at_s += pause_s

    def silent(self, now_s: float) -> list[Lost]:
        """End the sessions of the machines that were silent for too long."""
        timeout_s = self._heartbeats.timeout_s
        lost = []
        for name, machine in self._machines.items():
            if machine.session is None or now_s - machine.session.heard_at_s < timeout_s:
                continue
            lost.append(self.end(name, f"machine {name} does not answer for {timeout_s:g} s"))
        return [each for each in lost if each is not None]

    def close(self, reason: str = ENDED) -> list[Lost]:
        """Admit no machine from now on; return the sessions that end with this."""
        self._is_ending = True
        ends = [self.end(name, reason) for name in self._machines]
        return [end for end in ends if end is not None]


def _refusal(reason: RefusalReason, message: str) -> JoinRefusal:
    return JoinRefusal(reason=reason, message=message)
