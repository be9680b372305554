"""Masked aggregation: sums of which nobody sees one rank's part, for federated learning.

Bonawitz et al., "Practical Secure Aggregation for Privacy-Preserving Machine Learning" (CCS 2017),
for honest-but-curious switches and ranks. docs/trust.md says what it hides from whom.
"""

from innet.masking.masked_sum import MaskedSum, MaskedTotal

__all__ = ["MaskedSum", "MaskedTotal"]
