"""Bounds: the least time that the links allow each method."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.errors import PlanError
from innet.lab.compare.methods import BASELINES, Flow, find_method, method_bound_s, phase_bound_s
from innet.plans import textbook_bound_s
from innet.topology import load_topology

RATE_BPS = 200e6
SIZE_BYTES = 16 << 20


@pytest.mark.parametrize(
    ("method", "textbook"),
    [
        ("inc", "inc"),
        ("ring", "ring"),
        ("ps", "ps"),
        ("halving-doubling", "halving-doubling"),
        ("gloo", "gloo-ring"),
        ("openmpi", "gloo-ring"),
        ("gloo-push", "gloo-gather-broadcast"),
    ],
)
def test_bounds_on_a_star_are_those_of_the_textbook(method: str, textbook: str) -> None:
    star = load_topology("star8").with_overrides(rate_bps=RATE_BPS)
    bound_s = method_bound_s(find_method(method), star, SIZE_BYTES)
    assert bound_s == pytest.approx(textbook_bound_s(textbook, 8, SIZE_BYTES, RATE_BPS))


def test_links_without_rates_have_no_bound() -> None:
    star = load_topology("star8").with_overrides(rate_bps=None)
    for name in ("inc", *BASELINES):
        assert method_bound_s(find_method(name), star, SIZE_BYTES) is None


@given(st.integers(1, 1 << 30))
def test_flows_that_share_a_link_add_up(size_bytes: int) -> None:
    star = load_topology("star8").with_overrides(rate_bps=RATE_BPS)
    into_h0 = [Flow(f"h{i}", "h0", size_bytes) for i in range(1, 8)]
    assert phase_bound_s(star, into_h0) == pytest.approx(7 * size_bytes * 8 / RATE_BPS)
    apart = [Flow("h0", "h1", size_bytes), Flow("h1", "h0", size_bytes)]
    assert phase_bound_s(star, apart) == pytest.approx(size_bytes * 8 / RATE_BPS)


def test_an_unknown_method_is_refused_with_the_known_ones() -> None:
    with pytest.raises(PlanError, match=r"'magic'.*inc.*gloo-push"):
        find_method("magic")
