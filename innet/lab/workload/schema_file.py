"""Writes ``workloads/schema.json``: ``python -m innet.lab.workload.schema_file``."""

from __future__ import annotations

import json
from pathlib import Path

from innet.errors import WorkloadError
from innet.lab.workload.document import json_schema

SCHEMA_FILE = Path(__file__).resolve().parents[3] / "workloads" / "schema.json"


def schema_text() -> str:
    """What the file shall say."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def write_schema() -> None:
    """Bring the committed schema up to date with the models.

    Raises:
        WorkloadError: there is no ``workloads`` directory to write to.
    """
    if not SCHEMA_FILE.parent.is_dir():
        raise WorkloadError("no directory 'workloads'; run this in a checkout of the repository")
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")


if __name__ == "__main__":
    write_schema()
