"""The agent of a machine: joins a network, and serves its launcher until the network ends."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from innet.cluster.emulation.runs import (
    RunExists,
    RunRecord,
    create_run,
    machine_run_id,
    remove_run,
    remove_stale_runs,
)
from innet.cluster.emulation.termination import TerminationSignals
from innet.cluster.machines.addresses import Address, address_towards
from innet.cluster.machines.admission import ENDED
from innet.cluster.machines.commands import agent_socket_name
from innet.cluster.machines.connection import LauncherConnection
from innet.cluster.machines.machine_commands import MachineCommands
from innet.cluster.machines.messages import STARTER_VARIABLE
from innet.cluster.requests import RequestServer
from innet.errors import EmulationError
from innet.security.core_dumps import keep_keys_out_of_core_dumps
from innet.settings import SecuritySettings

_PATIENCE_S = 30.0


@dataclass(frozen=True)
class AgentOptions:
    """How a machine joins.

    Attributes:
        address: of the launcher; port 0 is the one in the token file.
        token_file: that ``innet up --listen`` wrote.
        name: of the machine; ``None``: the launcher gives one.
    """

    address: Address
    token_file: Path
    name: str | None = None


async def run_agent(options: AgentOptions, say: Callable[[str], None]) -> None:
    """Join, and serve the launcher until the network is taken down.

    An agent that loses the launcher ends its processes, and joins again. At its end, only the key
    beside the token file is left.

    Args:
        say: prints a line to the user.

    Raises:
        JoinRefused: the launcher does not admit this machine.
        SecurityError: the token file or the key cannot be used.
        EmulationError: the launcher cannot be reached.
    """
    keep_keys_out_of_core_dumps(SecuritySettings())
    signals = TerminationSignals(hurry=lambda: None)
    signals.install()
    try:
        await asyncio.to_thread(remove_stale_runs)
        address = options.address
        say(f"joining the network of {address if address.port else address.host}")
        while not await _serve(options, say):
            say("joining again")
    except asyncio.CancelledError:
        signals.raise_received()
        raise
    finally:
        signals.restore()


async def _serve(options: AgentOptions, say: Callable[[str], None]) -> bool:
    """Serve one session; whether the network has ended with it."""
    parent = os.getppid()
    connection = LauncherConnection(
        options.token_file,
        options.address,
        machine=options.name,
        patience_s=_PATIENCE_S,
        say=say,
    )
    async with connection as launcher:
        say(f"joined network {launcher.network} as machine {launcher.machine}")
        record = _entered(launcher.network, launcher.machine)
        record.kept_up = True
        record.machine = launcher.machine
        record.save()
        try:
            reason = await _serve_in(record, launcher, say)
        finally:
            starter = os.environ.get(STARTER_VARIABLE)
            if starter is not None and os.getppid() != parent:
                launcher.leaves_because = f"{starter} on its machine has ended or was killed"
            await asyncio.to_thread(remove_run, record)
    say(f"left network {launcher.network}: {reason}")
    return reason == ENDED


def _entered(network: str, machine: str) -> RunRecord:
    """This machine's part of a network, in the registry."""
    run_id = machine_run_id(network, machine)
    try:
        return create_run(run_id, network, "cluster", part_of=network)
    except RunExists as error:
        raise EmulationError(
            f"this host is machine {machine} of another network {network} already. Launch one of "
            f"them with another --name, end that part (innet down {run_id}), or set "
            "XDG_RUNTIME_DIR to another directory for this agent"
        ) from error


async def _serve_in(
    record: RunRecord,
    launcher: LauncherConnection,
    say: Callable[[str], None],
) -> str:
    commands = MachineCommands(launcher, record, _own_address(launcher.reached), say)
    name = agent_socket_name(launcher.machine)
    who = f"the agent of machine {launcher.machine}"
    try:
        async with RequestServer(record.run_dir / name, commands.respond, who=who):
            launcher.offer(record.run_dir, [name])
            await launcher.serve(record.run_dir)
            return await launcher.ended()
    finally:
        await commands.close()


def _own_address(launcher: Address) -> str:
    """The address of this machine on the way to the launcher.

    Raises:
        EmulationError: there is no way.
    """
    try:
        return address_towards(launcher)
    except OSError as error:
        raise EmulationError(
            f"this machine has no route to {launcher}: {error.strerror}. Join by an address of the "
            "launcher that it can reach"
        ) from error
