"""The text of ``innet --version``: version, commit, and the build of the compiled module."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from pathlib import Path

import innet

_PACKAGE = Path(innet.__file__).parent
_UNKNOWN = "unknown"


def version_text() -> str:
    """The version in the first line, a fact in each of the others."""
    facts = _facts()
    width = max(map(len, facts))
    lines = (f"  {name:{width}}  {fact}" for name, fact in facts.items() if name != "version")
    return "\n".join([f"innet {facts['version']}", *lines])


def version_json() -> str:
    """The version as one JSON object."""
    return json.dumps(_facts(), indent=2)


def _facts() -> dict[str, str]:
    from innet._native._core import build_information

    return {
        "version": innet.__version__,
        "commit": commit(),
        "python": f"{platform.python_version()}, {platform.system()} {platform.machine()}",
        **build_information(),
    }


def commit() -> str:
    """The commit that a wheel was built from, or that is checked out."""
    recorded = _PACKAGE / "commit.txt"
    if recorded.is_file():
        return recorded.read_text().strip()
    git = shutil.which("git")
    if git is None or not (_PACKAGE.parent / ".git").exists():
        return _UNKNOWN
    describe = ["describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+changes"]
    done = subprocess.run(
        [git, "-C", str(_PACKAGE.parent), *describe], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or _UNKNOWN
