"""Runs several workers one after the other in one process, which takes longer to start than they.

in_turn.py "WORKER.py ARGUMENT..."...
"""

import runpy
import shlex
import sys
from pathlib import Path

MARK = "== "
"""Begins the line before what a worker prints."""

if __name__ == "__main__":
    for command in sys.argv[1:]:
        path, *arguments = shlex.split(command)
        print(f"{MARK}{Path(path).name}", flush=True)
        sys.argv[1:] = arguments
        runpy.run_path(path, run_name="__main__")
