"""Trains a small GPT once per backend and layout and saves what each rank has in the end.

parallelism.py FOLDER LAYOUT@LAYERS...
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

STEPS = 10
BATCH = 8
EXPERTS = 4
# Small buckets: several operations are under way while gradients are still computed.
OPTIONS = ParallelOptions(microbatches=4, bucket_bytes=20_000)


def train(layout, layers):
    experts = EXPERTS * ("ep" in str(layout))
    shape = Shape(layers=layers, width=32, heads=4, context=16, experts=experts)
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
            coordinate = parameter.device_mesh.get_coordinate()
            assert coordinate is not None
            placed = zip(coordinate, parameter.placements, strict=True)
            shard = tuple(place for place, placement in placed if not placement.is_replicate())
            yield name, (shard, parameter.to_local().detach())
        elif "ep" in parallel.layout.sizes and name.endswith(("mlp.up", "mlp.down")):
            yield name, ((parallel.mesh.get_local_rank("ep"),), parameter.detach())
        else:
            yield name, ((), parameter.detach())


def train_each(folder, cases):
    for case in cases:
        layout, layers = case.split("@")
        try:
            found = train(Layout.parse(layout, dist.get_world_size()), int(layers))
        except Exception:
            found = {"error": traceback.format_exc()}
        target = folder / case / f"{dist.get_rank()}.pt"
        target.parent.mkdir(parents=True, exist_ok=True)
        torch.save(found, target)
        if "error" in found:
            print(case, found["error"])


def main():
    folder, *cases = sys.argv[1:]
    torch.set_num_threads(1)
    for name in backend.BACKENDS:
        backend.start(name)
        train_each(Path(folder) / name, cases)
        dist.destroy_process_group()


main()
