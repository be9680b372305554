"""What a receiver may have outstanding, by the rate of its link."""

import pytest

from innet.settings import Settings
from innet.topology import Host, Topology, load_topology
from innet.topology.credit import (
    longest_round_trip_s,
    queue_credit_bytes,
    receive_credit_bytes,
    with_timers_for,
)


@pytest.mark.parametrize(
    ("rate_bps", "queued_bytes"), [(20e6, 250_000), (22e6, 256 * 1024)], ids=["0.1 s", "no mark"]
)
def test_slow_links_queue_a_tenth_of_a_second_and_fast_ones_up_to_the_mark(
    rate_bps: float, queued_bytes: int
) -> None:
    star = load_topology("star:4").with_overrides(rate_bps=rate_bps, delay_s=0.0)
    on_two_links_bytes = 2 * star.links[0].mtu_bytes
    assert receive_credit_bytes(star, "h0") == on_two_links_bytes + queued_bytes


def test_workers_of_a_machine_share_half_of_the_queue_before_a_port_of_unknown_rate() -> None:
    star = load_topology("star:4").with_overrides(rate_bps=None, queue_bytes=400_000)
    assert queue_credit_bytes(star, "h0") == 200_000
    shared = star.with_workers(2)
    assert [queue_credit_bytes(shared, name) for name in ("h0.0", "h0.1")] == [100_000, 100_000]
    assert queue_credit_bytes(shared, "h0") == 0  # its workers ask, the host's node only forwards


def test_no_queue_is_assumed_without_a_port_or_with_a_known_rate() -> None:
    star = load_topology("star:4")
    assert queue_credit_bytes(star.with_overrides(rate_bps=1e9), "h0") == 0
    assert queue_credit_bytes(star, "s0") == 0
    beside_switch = Topology(
        name=star.name,
        nodes={**star.nodes, "h0": Host(name="h0", machine="launcher")},
        links=star.links,
    )
    assert queue_credit_bytes(beside_switch, "h0") == 0
    assert queue_credit_bytes(beside_switch, "h1") > 0


@pytest.mark.parametrize(("rate_bps", "delay_s"), [(1e6, 0.0), (1e9, 0.2), (None, 0.2)])
def test_timers_are_longer_than_the_round_trips_of_slow_and_of_long_paths(
    rate_bps: float | None, delay_s: float
) -> None:
    star = load_topology("star:4").with_overrides(rate_bps=rate_bps, delay_s=delay_s)
    timers = with_timers_for(star, Settings()).transport
    assert timers.min_rto_s > longest_round_trip_s(star) > Settings().transport.min_rto_s
    assert timers.max_rto_s > timers.min_rto_s
    assert timers.interest_lifetime_s >= 2 * timers.max_rto_s


def test_fast_paths_and_chosen_timers_are_unchanged() -> None:
    fast = load_topology("star:4").with_overrides(rate_bps=200e6)
    assert with_timers_for(fast, Settings()) == Settings()
    chosen = Settings().with_assignments(["transport.min_rto_s=0.01"])
    assert with_timers_for(fast.with_overrides(rate_bps=1e6), chosen) == chosen
