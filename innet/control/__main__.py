"""The process of a run's controller: ``python -m innet.control CONFIG``, from the launcher."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict

from innet.control.client import ControlClient, ipc_address
from innet.control.controller import Controller
from innet.control.resumption import LaunchRecord
from innet.errors import InnetError
from innet.settings import RecoverySettings
from innet.topology import parse_yaml


class ControllerConfig(BaseModel):
    """Everything that a controller process needs to know to start.

    Attributes:
        topology: as YAML.
        socket: what it answers on.
        node_sockets: the control socket of each node.
        recovery: the settings of the run.
        record: what an earlier process of it was told.
    """

    model_config = ConfigDict(extra="forbid")

    topology: str
    socket: Path
    node_sockets: dict[str, Path]
    recovery: RecoverySettings
    record: LaunchRecord


def main(arguments: list[str]) -> int:
    """Answer until told to stop by a signal; 0 when it ended as asked."""
    if len(arguments) != 1:
        print("usage: python -m innet.control CONFIG (started by `innet up`)", file=sys.stderr)
        return 2
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    launcher = os.getppid()
    config_path = Path(arguments[0])
    try:
        config = ControllerConfig.model_validate_json(config_path.read_bytes())

        def connect(node: str) -> ControlClient:
            return ControlClient(ipc_address(config.node_sockets[node]), who=node)

        controller = Controller(
            parse_yaml(config.topology),
            config.socket,
            connect,
            lambda pid: psutil.Process(pid).ppid() == launcher,
            recovery=config.recovery,
            record=config.record,
        )
    except (InnetError, OSError, ValueError) as error:
        print(f"innet controller: {error}", file=sys.stderr)
        return 1
    with controller:
        stop.wait()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
