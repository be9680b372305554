"""Azure's traces of language-model inference: CSV, without hashes.

    TIMESTAMP,ContextTokens,GeneratedTokens
    2023-11-16 18:15:46.6805900,374,44

(P. Patel et al., "Splitwise: Efficient generative LLM inference using phase splitting", ISCA 2024.)
Nobody can tell which prompts began alike, so no block of a request is that of another.
"""

from __future__ import annotations

import csv
import hashlib
from datetime import datetime
from pathlib import Path

from innet.errors import WorkloadError
from innet.lab.traces.mooncake import BLOCK_TOKENS
from innet.lab.traces.request import Request

_COLUMNS = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"]


def parse_azure(text: str, path: Path | None = None) -> tuple[Request, ...]:
    """Read a trace in Azure's format; the first request arrives at 0 s.

    Raises:
        WorkloadError: what is wrong, with its line.
    """
    rows = list(csv.reader(text.removeprefix("\ufeff").splitlines()))
    if not rows or rows[0] != _COLUMNS:
        raise WorkloadError(f"expected the header {','.join(_COLUMNS)}", path=path, line=1)
    if len(rows) == 1:
        raise WorkloadError("expected at least one request below the header", path=path)
    begin_s: float | None = None
    requests: list[Request] = []
    for number, row in enumerate(rows[1:], 2):
        at_s, input_tokens, output_tokens = _parsed(row, path, number)
        begin_s = at_s if begin_s is None else begin_s
        arrival_s = at_s - begin_s
        if arrival_s < (requests[-1].arrival_s if requests else 0):
            raise WorkloadError("TIMESTAMP: before that of the line above", path=path, line=number)
        blocks = tuple(
            hashlib.sha256(f"{number}/{block}".encode()).digest()
            for block in range(-(-input_tokens // BLOCK_TOKENS))
        )
        requests.append(Request(arrival_s, input_tokens, output_tokens, blocks))
    return tuple(requests)


def _parsed(row: list[str], path: Path | None, line: int) -> tuple[float, int, int]:
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
