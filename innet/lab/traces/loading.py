"""Reads a trace of whichever format."""

from __future__ import annotations

from pathlib import Path

from innet.errors import WorkloadError
from innet.lab.traces.azure import parse_azure
from innet.lab.traces.mooncake import parse_mooncake
from innet.lab.traces.request import Request

_PARSERS = {".jsonl": parse_mooncake, ".csv": parse_azure}


def load_trace(path: Path, text: str) -> tuple[Request, ...]:
    """The requests in ``text``, which stood in ``path``: Mooncake's (.jsonl) or Azure's (.csv).

    Raises:
        WorkloadError: what is wrong, with its line.
    """
    parse = _PARSERS.get(path.suffix.lower())
    if parse is None:
        raise WorkloadError(
            "a trace of requests is .jsonl (Mooncake's format) or .csv (Azure's)", path=path
        )
    return parse(text, path)
