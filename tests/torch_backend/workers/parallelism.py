"""Trains a small GPT once per layout and saves what each rank has in the end.

parallelism.py BACKEND FOLDER LAYOUT...
"""

import sys
import traceback
from pathlib import Path

import torch
import torch.distributed as dist
from gpt import backend
from gpt.corpus import Corpus
from gpt.layout import Layout
from gpt.model import GPT, Shape
from gpt.parallel import ParallelModel, ParallelOptions
from torch.distributed.tensor import DTensor

STEPS = 20
BATCH = 8
EXPERTS = 4
# Small buckets: several operations are under way while gradients are still computed.
OPTIONS = ParallelOptions(microbatches=4, bucket_bytes=20_000)


def train(layout):
    shape = Shape(layers=4, width=32, heads=4, context=16, experts=EXPERTS * ("ep" in str(layout)))
    parallel = ParallelModel(GPT(shape, seed=3), layout, OPTIONS)
    optimizer = torch.optim.SGD(parallel.model.parameters(), lr=0.1, momentum=0.9, foreach=False)
    corpus = Corpus.of_standard_library(limit_bytes=100_000)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = parallel.gradients(*corpus.batch(7, step, BATCH, shape.context))
        optimizer.step()
        losses.append(None if loss is None else float(loss))
    return {"losses": losses, "parameters": dict(parts(parallel))}


def parts(parallel):
    """Of each parameter: which part this rank has, and the part."""
    for name, parameter in parallel.model.named_parameters():
        if isinstance(parameter, DTensor):
            placed = zip(parameter.device_mesh.get_coordinate(), parameter.placements, strict=True)
            shard = tuple(place for place, placement in placed if not placement.is_replicate())
            yield name, (shard, parameter.to_local().detach())
        elif "ep" in parallel.layout.sizes and name.endswith(("mlp.up", "mlp.down")):
            yield name, ((parallel.mesh.get_local_rank("ep"),), parameter.detach())
        else:
            yield name, ((), parameter.detach())


def main():
    name, folder, *layouts = sys.argv[1:]
    torch.set_num_threads(1)
    backend.start(name)
    for text in layouts:
        try:
            found = train(Layout.parse(text, dist.get_world_size()))
        except Exception:
            found = {"error": traceback.format_exc()}
        target = Path(folder) / text / f"{dist.get_rank()}.pt"
        target.parent.mkdir(parents=True, exist_ok=True)
        torch.save(found, target)
        if "error" in found:
            print(text, found["error"])
    dist.destroy_process_group()


main()
