"""The process of a standing pool on one host: a member for each tenant, until SIGTERM.

The launcher's part is :mod:`innet.kv.service.standing_pool`, which starts
``python -m innet.kv.service.member``.
"""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, cast

from pydantic import TypeAdapter

from innet.errors import EmulationError
from innet.kv.pool_member import PoolMember
from innet.kv.pool_options import PoolOptions

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
    """Keep blocks of all tenants until SIGTERM."""
    path = os.environ.get(OPTIONS_VARIABLE)
    if path is None:
        raise EmulationError(
            f"{OPTIONS_VARIABLE} is not set: members of a standing pool are started by "
            "`innet kv serve`. Start one with it"
        )
    ends = (signal.SIGTERM, signal.SIGINT)
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)  # before there are threads
    with ExitStack() as members:
        for options in read(Path(path).read_bytes()):
            members.enter_context(PoolMember.open(**options))
        signal.sigwait(ends)


if __name__ == "__main__":
    main()
