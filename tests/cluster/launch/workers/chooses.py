"""Prints the costs from which ``auto`` chooses on this rank, and its choice."""

from __future__ import annotations

import json

import innet
from innet.worker.current import current_worker

comm = innet.init()
processor = current_worker().job.processor
document = {
    "processor": None if processor is None else processor.model_dump(),
    "why": comm.explain(1 << 16),
}
print(json.dumps(document), flush=True)
