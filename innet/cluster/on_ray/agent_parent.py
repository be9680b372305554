"""The parent of a machine's agent: ``python -m innet.cluster.on_ray.agent_parent COMMAND``.

Ray kills the children of an actor that ends, with SIGKILL. So Ray kills this process, and its
child, the agent, receives SIGTERM: the agent ends its own processes, and removes its files.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence

from innet.cluster.emulation.syscalls import set_parent_death_signal


def main(command: Sequence[str]) -> int:
    """Run a command, pass signals on to it, and return its exit code."""
    agent = subprocess.Popen(command, preexec_fn=_end_with_parent)
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda received, _: agent.send_signal(received))
    code = agent.wait()
    return 128 - code if code < 0 else code


def _end_with_parent() -> None:
    set_parent_death_signal(signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
