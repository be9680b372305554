"""Files that come with innet: ``topologies/`` and ``workloads/``, installed or in a checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Final

FOLDERS: Final = ("topologies", "workloads")


def shipped_folder(name: str) -> Path | None:
    """One of :data:`FOLDERS`: in the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent
    candidates = (package / name, package.parent / name)
    return next((path for path in candidates if path.is_dir()), None)


def located(path: Path) -> Path:
    """``path``, or the shipped file of that name where ``path`` does not exist.

    >>> located(Path("workloads/training.yaml")).is_file()
    True
    """
    if path.is_absolute() or path.parts[:1] not in [(name,) for name in FOLDERS] or path.exists():
        return path
    folder = shipped_folder(path.parts[0])
    shipped = path if folder is None else folder.joinpath(*path.parts[1:])
    return shipped if shipped.is_file() else path
