"""A mixture of experts (Switch Transformer, Fedus et al. 2021): each byte goes to one expert.

With expert parallelism each rank has some of the experts, and bytes travel to theirs and back by
all-to-all exchanges of different sizes: no byte is dropped, and none padded.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed._functional_collectives import (
    all_to_all_single,
    all_to_all_single_autograd,
)


class MixtureOfExperts(nn.Module):
    """A router and its experts, each a perceptron; :meth:`distribute` spreads them over ranks.

    Attributes:
        up, down: the experts' layers, shape ``(experts here, width, hidden)`` and
            ``(experts here, hidden, width)``.
    """

    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        hidden = 4 * width
        self.experts = experts
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.empty(experts, width, hidden))
        self.down = nn.Parameter(torch.empty(experts, hidden, width))
        self._group: dist.ProcessGroup | None = None

    def distribute(self, group: dist.ProcessGroup) -> None:
        """Keep this rank's equal part of the experts; the group's ranks have the others.

        Before training: parameters are replaced.
        """
        size, rank = group.size(), group.rank()
        for name in ("up", "down"):
            whole = getattr(self, name)
            setattr(self, name, nn.Parameter(whole.detach().chunk(size)[rank].clone()))
        self._group = group

    def forward(self, stream: torch.Tensor) -> torch.Tensor:
        """From shape ``(..., width)`` to the same."""
        rows = stream.flatten(0, -2)
        weight, expert = self.router(rows).softmax(-1).max(-1)
        by_expert = expert.argsort(stable=True)
        counts = expert.bincount(minlength=self.experts)
        sent = rows[by_expert]
        answered = self._here(sent, counts) if self._group is None else self._there(sent, counts)
        results = torch.empty_like(rows).index_copy(0, by_expert, answered)
        weighted: torch.Tensor = results * weight.unsqueeze(-1)
        return weighted.view_as(stream)

    def _here(self, rows: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """The results of ``rows`` from this rank's experts; rows are in the experts' order."""
        # Experts without a row take part too, so that each has a gradient on every rank.
        parts = torch.split(rows, counts.tolist())
        return torch.cat(
            [
                nn.functional.gelu(part @ up) @ down
                for part, up, down in zip(parts, self.up, self.down, strict=True)
            ]
        )

    def _there(self, rows: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """The results of ``rows`` from the ranks that have the experts."""
        group = self._group
        assert group is not None
        size = group.size()
        # coming[s][e]: rows from rank s for this rank's expert e.
        coming = all_to_all_single(counts, None, None, group).view(size, -1)
        sends = counts.view(size, -1).sum(1).tolist()
        receives = coming.sum(1).tolist()
        arrived = all_to_all_single_autograd(rows, receives, sends, group)
        experts_here = coming.shape[1]
        expert = torch.arange(experts_here).repeat(size).repeat_interleave(coming.flatten())
        by_expert = expert.argsort(stable=True)
        made = self._here(arrived[by_expert], coming.sum(0))
        back = torch.empty_like(arrived).index_copy(0, by_expert, made)
        return all_to_all_single_autograd(back, sends, receives, group)
