"""Hostile topology, workload and policy files: what is wrong is told, and nothing else happens.

``python -m tests.fuzz.files RUNS [SEED]`` gives each parser that many texts, and ends with 1 at the
first that raises anything but an error of innet, or takes longer than ten seconds.
"""

from __future__ import annotations

import contextlib
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from innet.errors import InnetError
from innet.lab.workload.model import parse_workload
from innet.security.trust.policy import Policy
from innet.topology import parse_yaml
from tests.fuzz.text_mutations import TextMutator

_ROOT = Path(__file__).parents[2]
_MOST_SECONDS = 10.0
PARSERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "topologies": (parse_yaml, "topologies/*.yaml"),
    "workloads": (partial(parse_workload, path=_ROOT / "workloads" / "x"), "workloads/*.yaml"),
    "policies": (Policy.of_text, "innet/security/trust/policies/*.lvs"),
}


def inputs(pattern: str, seed: int) -> Iterator[str]:
    """Texts without end, bent from the files that ``pattern`` names."""
    mutator = TextMutator([path.read_text() for path in sorted(_ROOT.glob(pattern))], seed)
    while True:
        yield mutator.next()


def finding(parse: Callable[[str], Any], text: str) -> str | None:
    """What goes wrong with ``text``; ``None`` when it is parsed, or refused as it should be."""
    began_s = time.monotonic()
    try:
        with contextlib.suppress(InnetError):  # what users get to read
            parse(text)
    except Exception:
        return traceback.format_exc()
    took_s = time.monotonic() - began_s
    return f"it took {took_s:.1f} s" if took_s > _MOST_SECONDS else None


def main() -> int:
    """Try all parsers."""
    runs, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns()
    for name, (parse, pattern) in PARSERS.items():
        for _, text in zip(range(runs), inputs(pattern, seed), strict=False):
            found = finding(parse, text)
            if found is not None:
                print(f"{name}, seed {seed}:\n{text}\n{found}")
                return 1
        print(f"{name}: {runs} texts, seed {seed}: each was read, or refused by an error of innet")
    return 0


if __name__ == "__main__":
    sys.exit(main())
