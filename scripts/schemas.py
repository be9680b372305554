"""Write the JSON schemas of topology and workload files: python scripts/schemas.py"""

from __future__ import annotations

import json
from pathlib import Path

from innet import topology
from innet.lab import workload

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Write the schemas that the models describe into the repository."""
    for directory, package in (("topologies", topology), ("workloads", workload)):
        text = json.dumps(package.json_schema(), indent=2, ensure_ascii=False)
        (ROOT / directory / "schema.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
