"""The process of a standing pool on one host: a member for each tenant, until SIGTERM.

The launcher's part is :mod:`innet.kv.service.standing_pool`, which starts
``python -m innet.kv.service.member``.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, cast

from pydantic import TypeAdapter

from innet.errors import EmulationError, InnetError, KVError
from innet.kv.node_network import MEMBERS_REFRESH_S
from innet.kv.pool_member import PoolMember
from innet.kv.pool_options import PoolOptions
from innet.worker.job_file import RESTARTS_VARIABLE

LEAVE: Final = signal.SIGUSR1
_ENDS: Final = (signal.SIGTERM, signal.SIGINT)
_ABSENCE_S: Final = 2 * MEMBERS_REFRESH_S
"""A restarted process waits this long before it joins, so that the others see that its predecessor,
and what that had in memory, is gone."""
_LOOK_S: Final = 0.2
_ENDED: Final = 128 + signal.SIGTERM
"""Exit code of a failure, so that a member is restarted when its machine is back."""
REFUSED: Final = os.EX_CONFIG
"""Exit code: its options cannot be used on this machine, such as a folder on a read-only disk."""
OPTIONS_VARIABLE: Final = "INNET_POOL"
"""Environment variable with the path of the file of :func:`written`."""

_options: Final[TypeAdapter[list[dict[str, Any]]]] = TypeAdapter(list[dict[str, Any]])


def written(members: list[PoolOptions]) -> str:
    """The options of a host's members as the text of a file, with the tenants' secrets."""
    found = []
    for options in members:
        secret, folder = options.get("secret"), options.get("folder")
        assert isinstance(secret, bytes)
        changes = {"secret": secret.hex()} | ({} if folder is None else {"folder": str(folder)})
        found.append({**options, **changes})
    return _options.dump_json(found).decode()


def read(text: bytes) -> list[PoolOptions]:
    """The options that :func:`written` has written."""
    found = _options.validate_json(text)
    return [cast(PoolOptions, {**each, "secret": bytes.fromhex(each["secret"])}) for each in found]


def main() -> None:
    """Keep blocks of all tenants until SIGTERM; hand them over and leave at :data:`LEAVE`."""
    path = os.environ.get(OPTIONS_VARIABLE)
    if path is None:
        raise EmulationError(
            f"{OPTIONS_VARIABLE} is not set: members of a standing pool are started by "
            "`innet kv serve`. Start one with it"
        )
    signal.pthread_sigmask(signal.SIG_BLOCK, {LEAVE, *_ENDS})  # before there are threads
    if os.environ.get(RESTARTS_VARIABLE, "0") != "0":
        time.sleep(_ABSENCE_S)
    with ExitStack() as stack:
        members = [
            stack.enter_context(PoolMember.open(**options))
            for options in read(Path(path).read_bytes())
        ]
        if signal.sigwait({LEAVE, *_ENDS}) == LEAVE:
            for member in members:
                _hand_over(member)
                member.close()
            signal.sigwait(_ENDS)  # a process that ended would be started again
    sys.exit(_ENDED)


def _hand_over(member: PoolMember) -> None:
    """Hand a member's blocks over, or as many as there is time for."""
    print(f"{member.node} hands its blocks over", flush=True)
    handing_over = member.submit(member.blocks.hand_over())
    while not handing_over.done():
        if signal.sigtimedwait(_ENDS, _LOOK_S) is not None:
            handing_over.cancel()
            sys.exit(_ENDED)
    print(f"{member.node} leaves; others keep {handing_over.result()} copies", flush=True)


if __name__ == "__main__":
    try:
        main()
    except InnetError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(REFUSED if isinstance(error, KVError) else error.exit_code)
