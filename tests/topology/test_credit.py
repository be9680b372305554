"""What a receiver may have outstanding, by the rate of its link."""

import pytest

from innet.topology import load_topology
from innet.topology.credit import receive_credit_bytes


@pytest.mark.parametrize(
    ("rate_bps", "queued_bytes"), [(20e6, 250_000), (22e6, 256 * 1024)], ids=["0.1 s", "no mark"]
)
def test_slow_links_queue_a_tenth_of_a_second_and_faster_ones_what_causes_no_mark(
    rate_bps: float, queued_bytes: int
) -> None:
    star = load_topology("star:4").with_overrides(rate_bps=rate_bps, delay_s=0.0)
    on_two_links_bytes = 2 * star.links[0].mtu_bytes
    assert receive_credit_bytes(star, "h0") == on_two_links_bytes + queued_bytes
