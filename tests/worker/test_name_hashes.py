"""What a process keys its tables of names with, nobody outside knows."""

from __future__ import annotations

import subprocess
import sys

from innet._native import _core

NAME = "/job/g0/3"


def hash_in_another_process() -> int:
    program = f"from innet._native import _core; print(hash(_core.Name({NAME!r})))"
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return int(told.stdout)


def test_hashes_of_names_differ_between_processes():
    assert hash(_core.Name(NAME)) == hash(_core.Name(NAME))
    hashes = {hash(_core.Name(NAME)), hash_in_another_process(), hash_in_another_process()}
    assert len(hashes) == 3
