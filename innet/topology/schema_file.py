"""Writes ``topologies/schema.json`` anew: ``python -m innet.topology.schema_file``."""

from __future__ import annotations

import json

from innet.errors import TopologyError
from innet.topology.document import json_schema
from innet.topology.shipped import shipped_directory


def write_schema() -> None:
    """Bring the committed schema up to date with the models.

    Raises:
        TopologyError: there is no ``topologies`` directory to write to.
    """
    directory = shipped_directory()
    if directory is None:
        raise TopologyError("no directory 'topologies'; run this in a checkout of the repository")
    text = json.dumps(json_schema(), indent=2, ensure_ascii=False)
    (directory / "schema.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    write_schema()
