"""The process of a switch: ``python -m innet.node CONFIG``. Started by the launcher."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

from innet.errors import InnetError
from innet.node.agent import NodeAgent
from innet.node.announcer import Announcer
from innet.node.node_config import NodeConfig
from innet.node.node_telemetry import publish_node
from innet.node.runtime import open_node, prefer_this_process
from innet.security.core_dumps import keep_keys_out_of_core_dumps
from innet.security.credential_packets import CredentialOpener
from innet.security.keys import KEYS_VARIABLE, NodeKeys
from innet.settings import SETTINGS_VARIABLE, Settings
from innet.telemetry.logs import LogContext, configure_logs


def main(arguments: list[str]) -> int:
    """Run one node until a signal stops it; returns 0 after an orderly end."""
    if len(arguments) != 1:
        print("usage: python -m innet.node CONFIG (started by `innet up`)", file=sys.stderr)
        return 2
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    prefer_this_process()
    try:
        config = NodeConfig.load(Path(arguments[0]))
        settings = Settings.load(Path(os.environ[SETTINGS_VARIABLE]))
        keep_keys_out_of_core_dumps(settings.security)
        keys = NodeKeys.load(Path(os.environ[KEYS_VARIABLE]))
        configure_logs(settings.log, LogContext(node=config.node, run=config.run_id))
        node = open_node(config, settings, keys)
    except (InnetError, KeyError) as error:
        print(f"innet node: {error}", file=sys.stderr)
        return 1
    credentials = None if keys.authority is None else CredentialOpener(config.node, keys.authority)
    announcer = Announcer(node, config) if settings.ndn.announce else None
    with (
        NodeAgent(node, config, credentials=credentials, announcer=announcer, keys=keys) as agent,
        ExitStack() as stack,
    ):
        stack.callback(publish_node(node, config, settings, keys, agent.status))
        stop.wait()
    node.stop(f"{config.node} was told to stop")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
