"""The process of a switch."""

from __future__ import annotations

import subprocess
import sys


def test_a_switch_starts_without_what_plans_and_topologies_need() -> None:
    code = (
        "import sys, innet.node.__main__\n"
        "print(sorted({'networkx', 'numpy', 'innet.plans', 'innet.topology'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
