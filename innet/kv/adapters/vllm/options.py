"""What ``kv_connector_extra_config`` can say, beside what a pool takes."""

from __future__ import annotations

from pydantic import Field

from innet.kv.adapters.options import AdapterOptions


class ConnectorOptions(AdapterOptions):
    """Options of the connector.

    Attributes:
        chunk_tokens: tokens of a chunk, which is looked up, loaded and saved as one: a multiple of
            vLLM's block size.
        layers_per_object: layers of a chunk that travel together. Computing begins when the first
            have come.
        load_between_steps: whether a request waits for all of its blocks before it is computed, and
            others are computed meanwhile. By default it is computed at once, and waits for each
            layer, and so does whoever is in the same batch.
        saving_bytes: chunks that are on their way to their homes, at most; what would be more is
            not saved.
    """

    chunk_tokens: int = Field(default=256, ge=1)
    layers_per_object: int = Field(default=4, ge=1)
    load_between_steps: bool = False
    saving_bytes: int = Field(default=1 << 30, ge=0)
