"""The text to learn: the source files of Python's standard library, as bytes."""

from __future__ import annotations

import sysconfig
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

VOCABULARY = 256
"""Every byte is a token of its own."""


@dataclass(frozen=True)
class Corpus:
    """One long text.

    Attributes:
        text: its bytes, shape ``(length,)``, uint8.
    """

    text: torch.Tensor

    @classmethod
    def of_standard_library(cls, limit_bytes: int = 4 << 20) -> Corpus:
        """The modules at the top of the standard library, in the order of their names.

        Every machine has them, and all ranks on one version of Python read the same bytes.

        Args:
            limit_bytes: how much of it to read at most.
        """
        parts = []
        left_bytes = limit_bytes
        for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
            part = path.read_bytes()[:left_bytes]
            parts.append(part)
            left_bytes -= len(part)
        return cls(torch.from_numpy(np.frombuffer(b"".join(parts), np.uint8).copy()))

    def batch(
        self, seed: int, step: int, batch: int, context: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Random pieces of the text, and each one's text a byte further on.

        The same for the same arguments, whoever asks: ranks cut their parts out of one batch, so a
        training has the same data however it is divided.

        Returns:
            Inputs and targets, shape ``(batch, context)`` each, int64.
        """
        generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
        last = len(self.text) - context - 1
        starts = torch.randint(last + 1, (batch, 1), generator=generator)
        pieces = self.text[starts + torch.arange(context + 1)].to(torch.int64)
        return pieces[:, :-1].contiguous(), pieces[:, 1:].contiguous()
