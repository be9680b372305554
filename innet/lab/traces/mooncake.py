"""Mooncake's traces: one JSON object a line.

    {"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2]}

``timestamp`` is in milliseconds. A hash id stands for 512 tokens and everything before them: equal
ids are equal prefixes (R. Qin et al., "Mooncake: A KVCache-centric Disaggregated Architecture for
LLM Serving", FAST 2025; the ids are renumbered, which keeps the prompts to themselves).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from innet.errors import WorkloadError
from innet.kv.hash_chain import HASH_BYTES
from innet.lab.traces.request import Request

BLOCK_TOKENS: Final = 512

_HashId = Annotated[int, Field(ge=0, lt=1 << 64)]


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    timestamp: float = Field(ge=0, lt=1e15)
    input_length: int = Field(ge=1, le=1 << 32)
    output_length: int = Field(ge=0, le=1 << 32)
    hash_ids: list[_HashId] = Field(min_length=1)


def parse_mooncake(text: str, path: Path | None = None) -> tuple[Request, ...]:
    """Read a trace in Mooncake's format; the first request arrives at 0 s.

    Raises:
        WorkloadError: what is wrong, with its line.
    """
    lines = [
        (number, _parsed(line, path, number))
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip()
    ]
    if not lines:
        raise WorkloadError("expected at least one request", path=path)
    begin_ms = lines[0][1].timestamp
    requests: list[Request] = []
    for number, line in lines:
        arrival_s = (line.timestamp - begin_ms) / 1000
        if arrival_s < (requests[-1].arrival_s if requests else 0):
            raise WorkloadError("timestamp: before that of the line above", path=path, line=number)
        most_tokens = len(line.hash_ids) * BLOCK_TOKENS
        if not most_tokens - BLOCK_TOKENS < line.input_length <= most_tokens:
            raise WorkloadError(
                f"input_length: {line.input_length} tokens have no {len(line.hash_ids)} blocks of "
                f"{BLOCK_TOKENS}",
                path=path,
                line=number,
            )
        blocks = tuple(hash_id.to_bytes(HASH_BYTES, "big") for hash_id in line.hash_ids)
        requests.append(Request(arrival_s, line.input_length, line.output_length, blocks))
    return tuple(requests)


def _parsed(line: str, path: Path | None, number: int) -> _Line:
    try:
        return _Line.model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise WorkloadError(
            f"{where}: {first['msg']}" if where else first["msg"], path=path, line=number
        ) from None
