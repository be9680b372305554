"""Runs the commands that README.md and docs/ show, page after page, and says which fail.

    python -m tests.docs [PAGE ...]

Each page has a directory of its own, with a registry of runs, a key store and the files that its
commands name. Commands run as they stand there, but for those of :mod:`tests.docs.adaptations`:
sizes are smaller, and some cannot run here, each with its reason. Tutorials are followed word by
word instead.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.docs.adaptations import PRELUDES, adapted, reason_to_skip
from tests.docs.command_lines import ROOT, CommandLine, commands_of, pages
from tests.docs.tutorials import TUTORIALS, WITH_VLLM, follow
from tests.docs.workspace import Workspace


def main(names: Sequence[str]) -> int:
    """Run the commands of those pages, or of all; 1 when one failed."""
    chosen = [page for page in pages() if not names or str(page.relative_to(ROOT)) in names]
    failed: list[str] = []
    for page in chosen:
        # A path short enough for sockets.
        with tempfile.TemporaryDirectory(prefix="innet-docs-") as directory:
            failed += _run_page(page, Path(directory))
    print(f"\n{len(failed)} failed" if failed else "\nall commands ran")
    for line in failed:
        print(f"  {line}")
    return 1 if failed else 0


def _run_page(page: Path, directory: Path) -> list[str]:
    failed = []
    name = str(page.relative_to(ROOT))
    with Workspace(directory) as workspace:
        if page.stem in WITH_VLLM:
            print(f"skipped  {name}\n         `make kv-adapters` follows it", flush=True)
            return []
        if page in TUTORIALS:
            return _follow_tutorial(page, workspace)
        workspace.add_readers_files()
        for command in PRELUDES.get(name, ()):
            if why := workspace.run(command):
                return [f"{name}, prelude: {command}: {why}"]
        for line in commands_of(page):
            if not line.in_block:
                continue
            if reason := reason_to_skip(line.text):
                print(f"skipped  {line}\n         {reason}", flush=True)
            elif why := _run(line, workspace):
                failed.append(str(line))
                print(f"FAILED   {line}\n{why}", flush=True)
    return failed


def _follow_tutorial(page: Path, workspace: Workspace) -> list[str]:
    began_s = time.monotonic()
    for step, why in follow(page, workspace):
        where = f"{page.relative_to(ROOT)}:{step.line}: {step.name or step.text.strip()}"
        if why:
            print(f"FAILED   {where}\n{why}", flush=True)
            return [where]
        print(f"ok {time.monotonic() - began_s:5.1f} s {where}", flush=True)
        began_s = time.monotonic()
    return []


def _run(line: CommandLine, workspace: Workspace) -> str:
    """The text of the failure; empty when all is well."""
    command = adapted(line.text)
    began_s = time.monotonic()
    why = workspace.run(command)
    if not why:
        as_what = "" if command == line.text else f"  as: {command}"
        print(f"ok {time.monotonic() - began_s:5.1f} s {line}{as_what}", flush=True)
    return why


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
