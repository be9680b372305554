"""How long a worker takes to compute the blocks that no store has.

Computing ``n`` tokens behind ``c`` cached ones takes

    start + n · token + pairs · pair,    pairs = n · c + n (n + 1) / 2

* ``token``: the linear layers, 2 floating-point operations per weight and token;
* ``pair``: attention, 4 · layers · width operations for each token and each token that it sees;
* ``start``: what a prefill takes however short it is.

(Counted as in Kaplan et al., "Scaling Laws for Neural Language Models", 2020, section 2.1.) The
defaults are those of a model of 8 billion weights, 32 layers and a width of 4096 on an accelerator
that does 156 · 10^12 operations a second: an NVIDIA A100 at half its peak in bfloat16.
"""

from __future__ import annotations

from dataclasses import dataclass

_OPERATIONS_PER_S = 156e12


@dataclass(frozen=True)
class PrefillCost:
    """What computing costs.

    Attributes:
        token_s: of each token.
        pair_s: of each pair of a token and one that it attends to.
        start_s: of each prefill.
    """

    token_s: float = 2 * 8e9 / _OPERATIONS_PER_S
    pair_s: float = 4 * 32 * 4096 / _OPERATIONS_PER_S
    start_s: float = 0.005

    def duration_s(self, new_tokens: int, cached_tokens: int) -> float:
        """Seconds to compute ``new_tokens`` behind ``cached_tokens``.

        >>> PrefillCost(token_s=1.0, pair_s=0.5, start_s=0.25).duration_s(2, 3)
        6.75
        """
        pairs = new_tokens * cached_tokens + new_tokens * (new_tokens + 1) / 2
        return self.start_s + new_tokens * self.token_s + pairs * self.pair_s
