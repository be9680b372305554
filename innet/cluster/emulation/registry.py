"""The directory in which this user's runs are registered (:mod:`.runs`)."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from innet.errors import EmulationError

_ROOTS_RUNTIME = "/run"


def runs_directory(*, make: bool = False) -> Path:
    """The directory of this user's runs; it exists only while there are runs, or with ``make``."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    uid = os.geteuid()
    if os.path.isdir(runtime) and os.stat(runtime).st_uid == uid:
        path = Path(runtime) / "innet"
    elif uid == 0 and os.access(_ROOTS_RUNTIME, os.W_OK):  # nobody cleans up there
        path = Path(_ROOTS_RUNTIME) / "innet"
    else:  # the owner of a directory of that name is checked below
        path = Path(f"/tmp/innet-{uid}")  # noqa: S108
    if not make and not os.path.lexists(path):
        return path
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
    except OSError as error:
        raise EmulationError(
            f"cannot make the directory of runs {path}: {error.strerror}. Set XDG_RUNTIME_DIR to a "
            "directory of yours that can be written to."
        ) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != uid or found.st_mode & 0o077:
        raise EmulationError(
            f"{path} is not a directory that you alone have access to, and control sockets would "
            "lie in it. Remove it, or set XDG_RUNTIME_DIR to a directory of yours."
        )
    return path


def registry_identity(registry: Path) -> str:
    """Tells a registry from another one at the same path: containers have a ``/tmp`` each."""
    with contextlib.suppress(FileNotFoundError):
        found = registry.stat()
        return f"{found.st_dev}:{found.st_ino}"
    return str(registry)
