"""A standing pool on a network that is up: starts its members, supervises them, lets one leave."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from innet.cluster.emulation.processes import SupervisedProcess
from innet.cluster.emulation.runs import find_run
from innet.cluster.launch import Session
from innet.cluster.session_client import RestartPolicy, WorkerOptions
from innet.errors import ControlError, EmulationError, KVError
from innet.kv.service.member import LEAVE, OPTIONS_VARIABLE, REFUSED, written
from innet.kv.service.pool_file import PoolFile
from innet.kv.tenant import Tenant
from innet.node.controller_client import CONTROLLER_SOCKET_NAME, ControllerClient
from innet.private_files import write_private

JOB_NAME: Final = "pool"
_OPTIONS_NAME: Final = "pool.json"
_PAUSE_S: Final = 0.1
_ANSWER_TIMEOUT_S: Final = 10.0


class StandingPool:
    """Runs a member on the first worker of each host, and restarts members that die.

    Example::

        session = Session(file.topology())
        pool = StandingPool(session, file)
        async with session, pool:
            await pool.ended()
    """

    def __init__(self, session: Session, file: PoolFile) -> None:
        """``session`` is entered after this is made, and before this is entered."""
        self._session = session
        session.reserved = self.seats  # an engine may wait for its pool
        self._file = file
        self._running: asyncio.Task[Any] | None = None

    async def __aenter__(self) -> Self:
        """Start all members, and wait until each has joined.

        Raises:
            EmulationError: one ends again and again before all have joined, or cannot use its
                options.
        """
        path = self._session.network.run_dir / _OPTIONS_NAME
        write_private(path, written(self._file.members))
        refused: asyncio.Future[EmulationError] = asyncio.Future()

        def on_given_up(process: SupervisedProcess) -> None:
            if not refused.done():
                refused.set_result(_crash(process))

        options = WorkerOptions(
            hosts=self.seats,
            env={OPTIONS_VARIABLE: str(path)},
            restarts=RestartPolicy(serve=True),
            job_name=JOB_NAME,
            on_given_up=on_given_up,
        )
        argv = (sys.executable, "-m", "innet.kv.service.member")
        self._running = asyncio.create_task(self._session.run_workers(argv, options))
        joining = asyncio.create_task(self._until_joined())
        seats = self.seats

        def on_exit(process: SupervisedProcess) -> None:
            is_refusal = process.label in seats and process.returncode == REFUSED
            if is_refusal and not refused.done():
                refused.set_result(_refusal(process))

        self._session.network.processes.on_exit(on_exit)
        try:
            steps = (joining, refused, self._running)
            await asyncio.wait(steps, return_when=asyncio.FIRST_COMPLETED)
            if refused.done():
                raise refused.result()
            if not joining.done():
                await self.ended()
            joining.result()
        except BaseException:
            await self._stop()
            raise
        finally:
            joining.cancel()
            refused.cancel()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stop()

    async def _stop(self) -> None:
        """End all members; otherwise those that the network ends would be started again."""
        assert self._running is not None
        self._running.cancel()
        await asyncio.wait([self._running])

    @property
    def seats(self) -> tuple[str, ...]:
        """The node of each member: the first worker of each host."""
        return tuple(workers[0] for workers in self._session.topology.workers_of.values())

    def described(self) -> str:
        """What users need to know about the pool, in lines."""
        names = [options["tenant"] for options in self._file.members]
        per_host = len(self._session.topology.hosts) // len(self.seats) - 1
        return (
            f"  serves:     the blocks of {', '.join(names)} on {len(self.seats)} hosts\n"
            f'  attach:     "address": "{self._session.network.run_id}", up to {per_host} '
            "processes of each host\n"
        )

    async def ended(self) -> None:
        """Wait until no member is left.

        Raises:
            JobFailed: all of them failed.
            EmulationError: they ended.
        """
        assert self._running is not None
        await asyncio.shield(self._running)
        raise EmulationError(
            "no member of the pool is left: all of them have ended. Their lines above say why; "
            "serve the pool again"
        )

    async def _until_joined(self) -> None:
        tenants = [_component(options) for options in self._file.members]
        path = self._session.network.run_dir / CONTROLLER_SOCKET_NAME
        seats = set(self.seats)
        with ControllerClient(path) as controller:
            while True:
                with suppress(ControlError):  # the controller is being restarted
                    members = await asyncio.to_thread(_members, controller)
                    if all(seats <= members.get(tenant, set()) for tenant in tenants):
                        return
                await asyncio.sleep(_PAUSE_S)


def leave(network: str | None, host: str, say: Callable[[str], object]) -> None:
    """Ask the member on a host of this machine to leave; return when it has handed its blocks over.

    Args:
        network: ``None``: the only one of this machine.
        host: of this machine.
        say: is called with a message once the request is sent.

    Raises:
        KVError: the host has no member of a pool, or the last one, or is on another machine, or its
            member died.
        EmulationError: there is no such network.
    """
    record = find_run(network)
    with ControllerClient(record.run_dir / CONTROLLER_SOCKET_NAME) as controller:
        seats = _seats(controller)
        if host not in seats:
            listed = ", ".join(seats) or "none: it was not started by `innet kv serve`"
            raise KVError(
                f"{record.run_id} has no member of a pool on {host}; it has them on {listed}"
            )
        seat = seats[host]
        here = [p for p in record.processes if p.node == seat and p.machine is None]
        if not here:
            raise KVError(
                f"the member of {host} does not run on this machine. Let it leave there: innet kv "
                f"leave {host}"
            )
        if set().union(*_members(controller).values()).intersection(seats.values()) == {seat}:
            raise KVError(
                f"{host} has the last member of {record.run_id}, so no other can take its blocks. "
                f"End the pool, which writes them to its disk if it has one: innet down "
                f"{record.run_id}"
            )
        for process in here:
            process.identity.send_signal(LEAVE)
        say(f"{host} hands its blocks over, and leaves also if this command is interrupted")
        while all(process.identity.is_alive() for process in here):
            with suppress(ControlError):  # the controller is being restarted, or the pool ends
                if not any(seat in members for members in _members(controller).values()):
                    return
            time.sleep(_PAUSE_S)
    raise KVError(
        f"the member of {host} ended before it had left; the blocks that it had written are on its "
        f"disk. If {record.run_id} is still up, let it leave again: innet kv leave {host}"
    )


def _refusal(member: SupervisedProcess) -> EmulationError:
    host, _, _ = member.label.rpartition(".")
    why = member.tail[-1].removeprefix("error: ") if member.tail else member.describe_end()
    return EmulationError(f"the member of {host} cannot start: {why}")


def _crash(member: SupervisedProcess) -> EmulationError:
    host, _, _ = member.label.rpartition(".")
    return EmulationError(
        f"the member of {host} has ended again and again before it had joined. The last process, "
        f"{member.failure_report()}\nMend what it says, and serve the pool again"
    )


def _component(options: Any) -> str:
    return Tenant(options["tenant"], options["secret"]).component


def _members(controller: ControllerClient) -> dict[str, set[str]]:
    """The nodes in each pool, by its tenant's component."""
    pools = controller.request("pools", timeout_s=_ANSWER_TIMEOUT_S)
    return {pool["tenant"]: set(pool["members"]) for pool in pools}


def _seats(controller: ControllerClient) -> dict[str, str]:
    """The node of each host's member, by host."""
    jobs = controller.request("overview", timeout_s=_ANSWER_TIMEOUT_S)["jobs"]
    seats = [node for job in jobs if job["name"] == JOB_NAME for node in job["hosts"]]
    return {seat.rpartition(".")[0]: seat for seat in seats}
