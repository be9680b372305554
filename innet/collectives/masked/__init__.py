"""Masked aggregation: sums that hide each rank's contribution, for federated learning.

Bonawitz et al., "Practical Secure Aggregation for Privacy-Preserving Machine Learning" (CCS 2017),
with the consistency check against active adversaries. docs/masked-sums.md says what it hides from
whom; start reading in :mod:`.masked_round`.
"""

from innet.collectives.masked.masked_sum import MaskedSum, MaskedTotal

__all__ = ["MaskedSum", "MaskedTotal"]
