"""One request of a trace."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt that arrived.

    Attributes:
        arrival_s: since the trace's first request.
        input_tokens: of the prompt.
        output_tokens: of the answer.
        blocks: the hash of each block of the prompt, from the first on; equal hashes stand for
            equal prefixes. The last block may be partly filled: whoever recorded the trace counted
            it as a block.
    """

    arrival_s: float
    input_tokens: int
    output_tokens: int
    blocks: tuple[bytes, ...]
