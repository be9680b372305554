"""What every node loads is light."""

from __future__ import annotations

import subprocess
import sys


def test_nodes_do_not_load_the_compiler_of_policies() -> None:
    program = "import sys, innet.node.__main__, innet.worker; print('lark' in sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "False"
