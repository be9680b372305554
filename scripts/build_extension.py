"""Compile innet._native._core, and install innet in editable mode with its libraries.

    build_extension.py [EXTRAS]     (such as dev,demo)

One pip compiles the module while another one installs the libraries, and those of EXTRAS. Called
again, it compiles what changed and finds every library in place. build/extension.log has the output
of the compiler.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOG = ROOT / "build" / "extension.log"
PIP = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-warn-conflicts"]
REPORT_EVERY_S = 15
LINES_OF_A_FAILURE = 60
_COMPILED = re.compile(r"\[(\d+)/(\d+)\] ")
_BINDING = "/_core.dir/"
_BINDING_WEIGHT = 5
_OWN_EXTRAS = re.compile(r"innet\[([\w,-]+)\]")


def requirements(project: Mapping[str, Any], extras: Iterable[str]) -> list[str]:
    """What innet requires with these extras, which may name others of its own extras."""
    optional: Mapping[str, list[str]] = project["optional-dependencies"]
    found = dict.fromkeys(project["dependencies"])
    pending, seen = list(extras), set()
    while pending:
        if (extra := pending.pop()) in seen:
            continue
        seen.add(extra)
        for requirement in optional[extra]:
            if own := _OWN_EXTRAS.fullmatch(requirement):
                pending.extend(own[1].split(","))
            else:
                found[requirement] = None
    return list(found)


class Progress:
    """Turns ninja's lines into a report every 15 seconds.

    Bindings are compiled last and take five times as long as other files, so they count as much.
    """

    def __init__(self, bindings: int) -> None:
        self._bindings_left = bindings
        self._reported_s = 0.0
        self._done_weight = 0

    def report(self, line: str, elapsed_s: float) -> str | None:
        """The progress to print after ``line`` of the build; ``None`` until it is due again."""
        counted = _COMPILED.match(line.lstrip())
        if counted is None or counted[1] == "0":
            return None
        is_binding = _BINDING in line
        self._bindings_left -= is_binding
        self._done_weight += _BINDING_WEIGHT if is_binding else 1
        done, total = int(counted[1]), int(counted[2])
        if elapsed_s - self._reported_s < REPORT_EVERY_S or done == total:
            return None
        self._reported_s = elapsed_s
        bindings = min(max(self._bindings_left, 0), total - done)
        left_weight = total - done + (_BINDING_WEIGHT - 1) * bindings
        left_s = elapsed_s * left_weight / self._done_weight
        return (
            f"  {done} of {total} files compiled in {elapsed_s:.0f} s; {_rounded(left_s)} left "
            "at this pace"
        )


def _rounded(duration_s: float) -> str:
    """A duration that is an estimate."""
    if duration_s < 60:
        return "less than a minute"
    minutes = round(duration_s / 60)
    return f"about {minutes} minute{'s' if minutes > 1 else ''}"


def build() -> Iterator[str]:
    """Compile and install the module; yields the lines that pip and ninja print."""
    command = [*PIP, "-v", "--no-build-isolation", "--no-deps", "--editable", "."]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "NINJA_STATUS": "[%f/%t] "},
    ) as pip:
        assert pip.stdout is not None
        yield from pip.stdout
    if pip.returncode:
        raise subprocess.CalledProcessError(pip.returncode, command)


def main() -> int:
    """Do both, and say how far it is."""
    extras = [extra for extra in "".join(sys.argv[1:]).split(",") if extra]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    libraries = requirements(project, extras)
    print("Compiling the module in C++, and installing missing libraries meanwhile", flush=True)
    began_s = time.monotonic()
    progress = Progress(bindings=len([*(ROOT / "innet" / "_native").glob("*.cpp")]))
    LOG.parent.mkdir(exist_ok=True)
    with subprocess.Popen([*PIP, "--quiet", *libraries], cwd=ROOT) as installing:
        try:
            with LOG.open("w") as log:
                for line in build():
                    log.write(line)
                    if report := progress.report(line, time.monotonic() - began_s):
                        print(report, flush=True)
        except subprocess.CalledProcessError as failed:
            installing.terminate()
            print(*LOG.read_text().splitlines()[-LINES_OF_A_FAILURE:], sep="\n", file=sys.stderr)
            print(
                f"The module could not be built; {LOG.relative_to(ROOT)} has the whole output.",
                file=sys.stderr,
            )
            return failed.returncode
        if installing.poll() is None:
            print("  The module is built; libraries are still being installed", flush=True)
    if installing.returncode:
        print(
            "The libraries could not be installed: pip says why above. Then run make again.",
            file=sys.stderr,
        )
        return installing.returncode
    print(f"Ready after {time.monotonic() - began_s:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
