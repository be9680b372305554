"""The controller's process, started by the launcher: ``python -m innet.cluster.control CONFIG``."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict

from innet.cluster.control.controller import Controller
from innet.cluster.control.controller_telemetry import ControllerSource, ControllerTelemetry
from innet.cluster.emulation.open_files import take_all_descriptors
from innet.errors import InnetError
from innet.node.control.client import ControlClient
from innet.node.control.resumption import LaunchRecord
from innet.security.core_dumps import keep_keys_out_of_core_dumps
from innet.settings import Settings
from innet.telemetry.logs import LogContext, configure_logs
from innet.telemetry.topics import CONTROLLER
from innet.topology import parse_yaml


class ControllerConfig(BaseModel):
    """Everything that a controller process needs to know to start.

    Attributes:
        run_id: the run's.
        topology: as YAML.
        socket: what it answers on.
        node_sockets: the control socket of each node.
        settings: the file with the settings of the run.
        record: what an earlier process of it was told.
    """

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    run_id: str
    topology: str
    socket: Path
    node_sockets: dict[str, Path]
    settings: Path
    record: LaunchRecord


def main(arguments: list[str]) -> int:
    """Answer until told to stop by a signal; 0 when it ended as asked."""
    if len(arguments) != 1:
        print(
            "usage: python -m innet.cluster.control CONFIG (started by `innet up`)", file=sys.stderr
        )
        return 2
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    take_all_descriptors()
    launcher = os.getppid()
    config_path = Path(arguments[0])
    try:
        config = ControllerConfig.model_validate_json(config_path.read_bytes())
        settings = Settings.load(config.settings)
        keep_keys_out_of_core_dumps(settings.security)
        configure_logs(settings.log, LogContext(node=CONTROLLER, run=config.run_id))

        def connect(node: str) -> ControlClient:
            return ControlClient(config.node_sockets[node], who=node)

        controller = Controller(
            parse_yaml(config.topology),
            config.socket,
            connect,
            lambda pid: psutil.Process(pid).ppid() == launcher,
            recovery=settings.recovery,
            record=config.record,
            announces=settings.ndn.announce,
        )
    except (InnetError, OSError, ValueError) as error:
        print(f"innet controller: {error}", file=sys.stderr)
        return 1
    source = ControllerSource(config.run_id, config.record.generation)
    with controller, ControllerTelemetry(source, config.socket.parent, settings.telemetry):
        stop.wait()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
