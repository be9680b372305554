"""Runs several workers one after the other in one process, which takes longer to start than they.

in_turn.py WORKER.py...
"""

import runpy
import sys
from pathlib import Path

MARK = "== "
"""Begins the line before what a worker prints."""

if __name__ == "__main__":
    for path in sys.argv[1:]:
        print(f"{MARK}{Path(path).name}", flush=True)
        runpy.run_path(path, run_name="__main__")
