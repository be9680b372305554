"""Runs several workers one after the other: in one process, which takes longer to start than they.

in_turn.py WORKER.py...
"""

import runpy
import sys
from pathlib import Path

for name in sys.argv[1:]:
    runpy.run_path(str(Path(__file__).with_name(name)), run_name="__main__")
