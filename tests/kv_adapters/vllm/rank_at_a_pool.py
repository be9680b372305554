"""One of two tensor-parallel ranks, which attaches to a standing pool and serves a prompt.

Usage: rank_at_a_pool.py MODEL RANK OPTIONS, with the connector's options as JSON. Prints what the
prompt took, as JSON.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from tests.kv_adapters.vllm.engine import Engine, make_config

PROMPT = [(7 * place) % 500 for place in range(61)]


def main() -> None:
    config = make_config(Path(sys.argv[1]), **json.loads(sys.argv[3]))
    parallel = config.parallel_config
    parallel.tensor_parallel_size, parallel.world_size, parallel.rank = 2, 2, int(sys.argv[2])
    engine = Engine(config)
    print(json.dumps(asdict(engine.serve(PROMPT))))
    engine.saved()
    engine.close()


main()
