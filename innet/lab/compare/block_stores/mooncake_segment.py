"""Mooncake's memory: ``python -m innet.lab.compare.block_stores.mooncake_segment PORT BYTES``

It ends with the process that started it, or upon SIGTERM.
"""

from __future__ import annotations

import signal
import sys

from innet.lab.compare.block_stores.mooncake_client import connect


def main() -> None:
    """Offer the memory until told to end."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    store = connect(int(sys.argv[1]), offered_bytes=int(sys.argv[2]))
    print("ready", flush=True)
    signal.sigwait({signal.SIGTERM})
    store.close()


if __name__ == "__main__":
    main()
