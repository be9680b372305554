"""DistributedDataParallel with each communication hook, beside the same training without one."""

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powersgd
from torch.nn.parallel import DistributedDataParallel

from innet.torch_backend import hooks

STEPS = 60
PART = 16
BUCKET_MB = 0.01  # several buckets, so several operations under way


def make_model():
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(20, 120), nn.Tanh(), nn.Linear(120, 5))


def data(rank):
    torch.manual_seed(7)
    teacher = nn.Linear(20, 5)
    torch.manual_seed(100 + rank)
    images = torch.randn(STEPS, PART, 20)
    return images, teacher(images).argmax(-1).detach()


def train(model, rank, steps=STEPS):
    """The mean loss of the last steps, over all ranks."""
    images, labels = data(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images[step]), labels[step])
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    last = torch.stack(losses[-10:]).mean()
    dist.all_reduce(last, dist.ReduceOp.AVG)
    return last.item()


def flat(model):
    return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])


def same_everywhere(tensor):
    everybodys = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(everybodys, tensor)
    return all(torch.equal(tensor, other) for other in everybodys)


def hooked(name):
    """A model under training with that hook."""
    model = DistributedDataParallel(make_model(), bucket_cap_mb=BUCKET_MB)
    made: dict[str, Callable[[], tuple[Any, Callable[..., Any]]]] = {
        "fp16": lambda: (None, hooks.fp16_hook),
        "bf16": lambda: (None, hooks.bf16_hook),
        "q8": lambda: (hooks.Q8State(model.parameters()), hooks.q8_hook),
        "topk": lambda: (hooks.TopKState(model.parameters(), ratio=0.1), hooks.topk_hook),
        "blocks": lambda: (
            hooks.BlockSparseState(model.parameters(), ratio=0.3),
            hooks.block_sparse_hook,
        ),
        "all-blocks": lambda: (
            hooks.BlockSparseState(model.parameters()),
            hooks.block_sparse_hook,
        ),
        "powersgd": lambda: (
            powersgd.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=3),
            powersgd.powerSGD_hook,
        ),
    }
    state, hook = made[name]()
    model.register_comm_hook(state, hook)
    return model


def check_training(name, rank, plain_loss):
    model = hooked(name)
    loss = train(model, rank)
    print(f"{name}: same bits {same_everywhere(flat(model))}, close {loss < plain_loss + 0.05}")


def check_bad_gradients(name, rank):
    """What one rank cannot represent, every rank's GradScaler must see, and recover from."""
    for bad in (float("nan"), float("inf"), float("-inf")):
        model = hooked(name)
        before = flat(model).clone()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=100)
        images, labels = data(rank)
        for step in range(2):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images[step]), labels[step])
            if step == 0 and rank == 1:
                loss = loss * bad
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            if step == 0:
                skipped = torch.equal(flat(model), before)
        moved = bool(flat(model).isfinite().all()) and not torch.equal(flat(model), before)
        print(f"{name}: {bad} skipped {skipped}, scale {scaler.get_scale()}, recovered {moved}")


def check_overflow(rank):
    """Gradients that float16 cannot hold, though float32 can."""
    model = DistributedDataParallel(nn.Linear(4, 1, bias=False))
    model.register_comm_hook(None, hooks.fp16_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20)
    scaler.scale(model(torch.ones(1, 4)).sum()).backward()
    before = flat(model).clone()
    scaler.step(optimizer)
    scaler.update()
    print(f"overflow: skipped {torch.equal(flat(model), before)}, scale {scaler.get_scale()}")


def check_errors(rank):
    model = DistributedDataParallel(make_model().double())
    model.register_comm_hook(hooks.Q8State(model.parameters()), hooks.q8_hook)
    try:
        model(torch.ones(1, 20, dtype=torch.float64)).sum().backward()
    except Exception as error:
        print(f"error|{type(error).__name__}: {error}".splitlines()[0])


def check_embedding(rank):
    """Each rank looks up other rows of a table; the mean is exact, and no other row moves."""
    table = nn.Embedding(5000, 48)
    nn.init.zeros_(table.weight)
    model = DistributedDataParallel(table)
    model.register_comm_hook(hooks.BlockSparseState(model.parameters()), hooks.block_sparse_hook)
    looked_up = torch.tensor([7, 100 + rank])
    (model(looked_up) * (rank + 1)).sum().backward()
    expected = torch.zeros(5000, 48)
    world = dist.get_world_size()
    for other in range(world):
        expected[[7, 100 + other]] += (other + 1) / world
    assert table.weight.grad is not None
    print(f"embedding: exact {torch.equal(table.weight.grad, expected)}")


def check_blocks_kept_back(rank):
    """Small blocks wait until they have become the largest; nothing is lost meanwhile."""
    layer = nn.Linear(4 * 32, 1, bias=False)
    nn.init.zeros_(layer.weight)
    model = DistributedDataParallel(layer)
    state = hooks.BlockSparseState(model.parameters(), ratio=0.25)
    model.register_comm_hook(state, hooks.block_sparse_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    gradient = torch.tensor([4.0, 3.0, 2.0, 1.0]).repeat_interleave(32)
    steps = 8
    for _ in range(steps):
        optimizer.zero_grad()
        model(gradient[None]).sum().backward()
        optimizer.step()
    moved = -flat(model)
    nothing_lost = torch.equal(moved + state.state_dict()["residuals"][0], steps * gradient)
    print(f"kept back: all moved {bool((moved > 0).all())}, nothing lost {nothing_lost}")


def check_checkpoint(rank):
    """Going on from a checkpoint is as going on."""
    images, labels = data(rank)

    def step(model, number):
        model.zero_grad()
        nn.functional.cross_entropy(model(images[number]), labels[number]).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad

    model = DistributedDataParallel(make_model(), bucket_cap_mb=BUCKET_MB)
    state = hooks.Q8State(model.parameters())
    model.register_comm_hook(state, hooks.q8_hook)
    for number in range(4):
        step(model, number)
    weights, residuals = copy.deepcopy(model.module.state_dict()), state.state_dict()
    step(model, 4)
    again = make_model()
    again.load_state_dict(weights)
    again = DistributedDataParallel(again, bucket_cap_mb=BUCKET_MB)
    state = hooks.Q8State(again.parameters())
    state.load_state_dict(residuals)
    again.register_comm_hook(state, hooks.q8_hook)
    step(again, 4)
    # The first step's buckets are others than the later ones', so blocks have other scales.
    close = torch.allclose(flat(again), flat(model), atol=2e-3)
    print(f"checkpoint: residuals {len(residuals['residuals'])}, close {close}")


def main():
    torch.set_num_threads(1)
    dist.init_process_group("innet")
    rank = dist.get_rank()
    plain_loss = train(DistributedDataParallel(make_model(), bucket_cap_mb=BUCKET_MB), rank)
    print(f"plain loss {plain_loss:.3f}")
    for name in ("fp16", "bf16", "q8", "topk", "blocks", "all-blocks", "powersgd"):
        check_training(name, rank, plain_loss)
    for name in ("fp16", "bf16", "q8", "topk", "blocks", "all-blocks"):
        check_bad_gradients(name, rank)
    check_overflow(rank)
    check_errors(rank)
    check_embedding(rank)
    check_blocks_kept_back(rank)
    check_checkpoint(rank)
    dist.destroy_process_group()


main()
