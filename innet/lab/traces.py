"""Traces of requests to language models, recorded in two formats.

:func:`load_trace` reads Mooncake's format (``.jsonl``) and Azure's (``.csv``).

Mooncake's has one JSON object a line::

    {"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2]}

``timestamp`` is in milliseconds. A hash id stands for 512 tokens and everything before them: equal
ids are equal prefixes (R. Qin et al., "Mooncake: A KVCache-centric Disaggregated Architecture for
LLM Serving", FAST 2025; the ids are renumbered, which keeps the prompts private).

Azure's is CSV, without hashes::

    TIMESTAMP,ContextTokens,GeneratedTokens
    2023-11-16 18:15:46.6805900,374,44

(P. Patel et al., "Splitwise: Efficient generative LLM inference using phase splitting", ISCA 2024.)
It does not say which prompts share a prefix, so no two requests share a block.
"""

from __future__ import annotations

import csv
import hashlib
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError

from innet.errors import WorkloadError
from innet.kv.hash_chain import HASH_BYTES


def _from_hex(value: object) -> object:
    return bytes.fromhex(value) if isinstance(value, str) else value


BlockHash = Annotated[
    bytes, BeforeValidator(_from_hex), PlainSerializer(bytes.hex, when_used="json")
]
"""The hash of a block; hexadecimal in JSON."""


@dataclass(frozen=True, slots=True)
class PromptRequest:
    """A prompt that arrived.

    Attributes:
        arrival_s: since the trace's first request.
        input_tokens: of the prompt.
        output_tokens: of the answer.
        blocks: the hash of each block of the prompt, in order; equal hashes stand for equal
            prefixes. The last block may be partly filled; recorded traces count it as a block.
    """

    arrival_s: float
    input_tokens: int
    output_tokens: int
    blocks: tuple[BlockHash, ...]


BLOCK_TOKENS: Final = 512

_HashId = Annotated[int, Field(ge=0, lt=1 << 64)]


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    timestamp: float = Field(ge=0, lt=1e15)
    input_length: int = Field(ge=1, le=1 << 32)
    output_length: int = Field(ge=0, le=1 << 32)
    hash_ids: list[_HashId] = Field(min_length=1)


def parse_mooncake(text: str, path: Path | None = None) -> tuple[PromptRequest, ...]:
    """Read a trace in Mooncake's format; the first request arrives at 0 s."""
    lines = [
        (number, _parsed_line(line, path, number))
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip()
    ]
    if not lines:
        raise WorkloadError("expected at least one request", path=path)
    begin_ms = lines[0][1].timestamp
    requests: list[PromptRequest] = []
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
        requests.append(PromptRequest(arrival_s, line.input_length, line.output_length, blocks))
    return tuple(requests)


def _parsed_line(line: str, path: Path | None, number: int) -> _Line:
    try:
        return _Line.model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise WorkloadError(
            f"{where}: {first['msg']}" if where else first["msg"], path=path, line=number
        ) from None


_AZURE_COLUMNS = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"]


def parse_azure(text: str, path: Path | None = None) -> tuple[PromptRequest, ...]:
    """Read a trace in Azure's format; the first request arrives at 0 s."""
    rows = list(csv.reader(text.removeprefix("\ufeff").splitlines()))
    if not rows or rows[0] != _AZURE_COLUMNS:
        raise WorkloadError(f"expected the header {','.join(_AZURE_COLUMNS)}", path=path, line=1)
    if len(rows) == 1:
        raise WorkloadError("expected at least one request below the header", path=path)
    begin_s: float | None = None
    requests: list[PromptRequest] = []
    for number, row in enumerate(rows[1:], 2):
        at_s, input_tokens, output_tokens = _parsed_row(row, path, number)
        begin_s = at_s if begin_s is None else begin_s
        arrival_s = at_s - begin_s
        if arrival_s < (requests[-1].arrival_s if requests else 0):
            raise WorkloadError("TIMESTAMP: before that of the line above", path=path, line=number)
        blocks = tuple(
            hashlib.sha256(f"{number}/{block}".encode()).digest()
            for block in range(-(-input_tokens // BLOCK_TOKENS))
        )
        requests.append(PromptRequest(arrival_s, input_tokens, output_tokens, blocks))
    return tuple(requests)


def _parsed_row(row: list[str], path: Path | None, line: int) -> tuple[float, int, int]:
    try:
        stamp, context, generated = row
        whole, _, fraction = stamp.partition(".")
        # Seven digits, where `datetime` reads six.
        at_s = datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{fraction or 0}")
        input_tokens, output_tokens = int(context), int(generated)
    except ValueError:
        raise WorkloadError(
            f"expected a time and two numbers of tokens, found {','.join(row)!r}",
            path=path,
            line=line,
        ) from None
    if not (0 < input_tokens <= 1 << 32 and 0 <= output_tokens <= 1 << 32):
        raise WorkloadError("a request has at least one token", path=path, line=line)
    return at_s, input_tokens, output_tokens


_PARSERS = {".jsonl": parse_mooncake, ".csv": parse_azure}


def load_trace(path: Path, text: str) -> tuple[PromptRequest, ...]:
    """The requests in ``text``, the contents of ``path``: Mooncake's (.jsonl) or Azure's (.csv)."""
    parse = _PARSERS.get(path.suffix.lower())
    if parse is None:
        raise WorkloadError(
            "a trace of requests is .jsonl (Mooncake's format) or .csv (Azure's)", path=path
        )
    return parse(text, path)
