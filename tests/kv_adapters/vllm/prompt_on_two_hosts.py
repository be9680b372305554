"""A worker of a real run: rank 0 computes a prompt, and then rank 1 serves it.

Usage: prompt_on_two_hosts.py MODEL. Prints what the prompt took, as JSON.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import innet
from tests.kv_adapters.vllm.engine import Engine, make_config

PROMPT = [(7 * place) % 500 for place in range(61)]


def main() -> None:
    comm = innet.init()
    engine = Engine(make_config(Path(sys.argv[1]), tenant="acme", members=2))
    comm.barrier()
    served = [engine.serve(PROMPT)] if comm.rank == 0 else []
    engine.saved()
    comm.barrier()
    if comm.rank == 1:
        served = [engine.serve(PROMPT)]
    print(json.dumps([asdict(each) for each in served]))
    comm.barrier()
    engine.close()


main()
