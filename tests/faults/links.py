"""Links of a running network taken down and up, as an operator's hand or a cable does it."""

from __future__ import annotations

import subprocess
from typing import Literal

from innet.cluster.emulation.runs import find_run


def set_link(run_id: str, node: str, port: str, state: Literal["up", "down"]) -> None:
    """Set one end of a link; the carrier of both ends goes with it."""
    namespace = find_run(run_id).namespaces[node]
    command = ["nsenter", f"--net={namespace}", "ip", "link", "set", port, state]
    subprocess.run(command, check=True)
