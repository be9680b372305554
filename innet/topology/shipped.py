"""The topologies that come with innet."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_SUFFIX: Final = ".yaml"


def shipped_directory() -> Path | None:
    """Where the shipped files are: in the installed package, or beside it in the repository."""
    package = Path(__file__).resolve().parent.parent
    candidates = (package / "topologies", package.parent / "topologies")
    return next((path for path in candidates if path.is_dir()), None)


def shipped_topologies() -> dict[str, Path]:
    """Shipped files by name, in order of their names."""
    directory = shipped_directory()
    files = () if directory is None else sorted(directory.glob(f"*{_SUFFIX}"))
    return {file.stem: file for file in files}
