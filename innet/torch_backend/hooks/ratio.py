"""How much of the gradients a hook sends."""

from innet.errors import CollectiveError


def checked_ratio(ratio: float) -> float:
    """``ratio``, which is above 0 and at most 1.

    Raises:
        CollectiveError: there is no such ratio.
    """
    if not 0 < ratio <= 1:
        raise CollectiveError(f"a ratio of {ratio} is not above 0 and at most 1; try 0.01")
    return ratio
