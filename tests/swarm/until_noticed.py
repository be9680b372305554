"""python -m tests.swarm.until_noticed BASE SEEDS: run seeds until one fails, and say which.

The exit status is 0 when one does: this is asked of an engine with a defect.
"""

from __future__ import annotations

import sys

from tests.swarm.sweep import run_seed


def main(base: int, seeds: int) -> int:
    """The exit status."""
    for seed in range(base, base + seeds):
        result = run_seed(seed)
        if result.problems:
            print(f"noticed after {seed - base + 1} seeds: {result.problems[0][:200]}")
            return 0
    print(f"not noticed in {seeds} seeds")
    return 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
