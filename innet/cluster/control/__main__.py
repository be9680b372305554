"""The controller's process, started by the launcher: ``python -m innet.cluster.control CONFIG``."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import sys
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import zmq
from pydantic import BaseModel, ConfigDict

from innet.cluster.control.controller import Controller
from innet.cluster.control.driver import ControllerDriver, OtherMachine
from innet.cluster.control.jobs import LaunchRecord
from innet.cluster.control.machine_processes import MachineProcesses
from innet.cluster.control.processes import LocalProcesses, Processes
from innet.cluster.emulation.runs import parent_of, socket_name_of
from innet.cluster.emulation.syscalls import take_all_descriptors
from innet.errors import InnetError
from innet.plans import ProcessorCosts
from innet.security.core_dumps import keep_keys_out_of_core_dumps
from innet.settings import Settings
from innet.telemetry.logs import LogContext, configure_logs
from innet.telemetry.messages import ControllerStatus, State
from innet.telemetry.source import ServiceSource, start_publishing
from innet.telemetry.topics import CONTROLLER, controller_topics
from innet.topology import Topology

_log = logging.getLogger(__name__)


class ControllerConfig(BaseModel):
    """The configuration of a controller process.

    ``topology`` is JSON, which is read far faster than YAML, ``settings`` a file; ``node_sockets``
    has the control socket of each node, ``record`` the requests to an earlier controller process.
    ``processor`` has the costs that ranks choose plans by.
    ``machines`` has the machine of each node that runs on another one than this, ``agents`` the
    sockets of those machines' agents.
    """

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    run_id: str
    topology: str
    socket: Path
    node_sockets: dict[str, Path]
    settings: Path
    record: LaunchRecord
    processor: ProcessorCosts | None = None
    machines: dict[str, str] = {}
    agents: dict[str, Path] = {}

    def processes_elsewhere(self) -> dict[str, Processes]:
        """The processes of other machines, by node."""
        machines = {name: MachineProcesses(name, agent) for name, agent in self.agents.items()}
        return {node: machines[machine] for node, machine in self.machines.items()}

    def other_machines(self) -> dict[str, OtherMachine]:
        """The other machines, each with its socket of this controller."""
        nodes: defaultdict[str, set[str]] = defaultdict(set)
        for node, machine in self.machines.items():
            nodes[machine].add(node)
        directory, name = self.socket.parent, self.socket.name
        return {
            machine: OtherMachine(directory / socket_name_of(name, machine), frozenset(of))
            for machine, of in nodes.items()
        }


class ControllerSource(ServiceSource):
    """The source of the controller of a run."""

    def __init__(self, run: str, generation: int) -> None:
        """``generation`` counts how often the controller was started again."""
        super().__init__(run, CONTROLLER, controller_topics(run))
        self._generation = generation

    def status(self, state: State) -> bytes:
        """The payload of its status."""
        return ControllerStatus(
            run=self.run,
            state=state,
            pid=os.getpid(),
            since_s=self.since_s,
            generation=self._generation,
        ).payload()


def main(arguments: list[str]) -> int:
    """Serve until a signal stops it; returns 0 after an orderly end."""
    if len(arguments) != 1:
        print(
            "usage: python -m innet.cluster.control CONFIG (started by `innet up`)", file=sys.stderr
        )
        return 2
    launcher = os.getppid()
    take_all_descriptors()
    try:
        config = ControllerConfig.model_validate_json(Path(arguments[0]).read_bytes())
        settings = Settings.load(config.settings)
        keep_keys_out_of_core_dumps(settings.security)
        configure_logs(settings.log, LogContext(node=CONTROLLER, run=config.run_id))
        return asyncio.run(_serve(config, settings, launcher))
    except (InnetError, OSError, ValueError) as error:
        print(f"innet controller: {error}", file=sys.stderr)
        return 1


def needs_successor(error: BaseException | None) -> bool:
    """Whether another process has to replace this one after an error in its event loop.

    It has file descriptors again, or a socket that receives.
    """
    if isinstance(error, OSError):
        return error.errno in (errno.EMFILE, errno.ENFILE)
    return isinstance(error, zmq.ZMQError)


async def _serve(config: ControllerConfig, settings: Settings, launcher: int) -> int:
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[int] = loop.create_future()

    def end(status: int) -> None:
        if not stop.done():
            stop.set_result(status)

    def on_error(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        _log.error("%s", context["message"], exc_info=error)
        if needs_successor(error):
            end(1)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, 0)
    loop.set_exception_handler(on_error)

    controller = Controller(
        Topology.model_validate_json(config.topology),
        settings=settings,
        record=config.record,
        processor=config.processor,
    )
    make_source = partial(ControllerSource, config.run_id, config.record.generation)
    driver = ControllerDriver(
        controller,
        config.socket,
        config.node_sockets,
        LocalProcesses(lambda pid: parent_of(pid) == launcher),
        config.processes_elsewhere(),
        config.other_machines(),
    )
    async with driver:
        stop_publishing = start_publishing(make_source, config.socket.parent, settings.telemetry)
        try:
            return await stop
        finally:
            stop_publishing()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
