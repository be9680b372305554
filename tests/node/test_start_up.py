"""The processes of switches and workers, as they start."""

from __future__ import annotations

import subprocess
import sys


def test_a_worker_starts_without_networkx() -> None:
    code = "import sys, innet; innet.init; print('networkx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_switch_starts_without_the_libraries_of_plans_and_topologies() -> None:
    code = (
        "import sys, innet.node.__main__\n"
        "print(sorted({'networkx', 'numpy', 'innet.plans', 'innet.topology'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
