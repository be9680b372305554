"""The token bucket's parameters keep a link usable at any rate, queue and MTU."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.cluster.emulation.kernel_network import (
    ETHERNET_HEADER_BYTES,
    SUPERPACKET_BYTES,
    TokenBucket,
)
from innet.errors import EmulationError
from innet.topology import Interface, Link


def make_link(rate_bps: float | None, queue_bytes: int, mtu_bytes: int) -> Link:
    return Link(
        a=Interface(node="h0", port="eth0"),
        b=Interface(node="s0", port="eth0"),
        rate_bps=rate_bps,
        queue_bytes=queue_bytes,
        mtu_bytes=mtu_bytes,
    )


@st.composite
def limited_links(draw: st.DrawFn) -> Link:
    mtu_bytes = draw(st.integers(576, 65000))
    queue_bytes = draw(st.integers(mtu_bytes, 1 << 40))
    return make_link(draw(st.floats(1e4, 34e9)), queue_bytes, mtu_bytes)


def bucket_of(link: Link) -> TokenBucket:
    bucket = TokenBucket.for_link(link)
    assert bucket is not None
    return bucket


def effective_burst_bytes(bucket: TokenBucket) -> float:
    """The burst after the kernel rounded its time to whole microseconds."""
    return int(1e6 * bucket.burst_bytes / bucket.rate_bytes_per_s) * bucket.rate_bytes_per_s / 1e6


@given(limited_links())
def test_a_packet_of_the_mtu_always_passes(link: Link) -> None:
    bucket = bucket_of(link)
    assert effective_burst_bytes(bucket) >= link.mtu_bytes + ETHERNET_HEADER_BYTES
    assert bucket.limit_bytes >= link.mtu_bytes + ETHERNET_HEADER_BYTES


@given(limited_links())
def test_the_burst_fits_into_the_queue(link: Link) -> None:
    bucket = bucket_of(link)
    assert bucket.burst_bytes <= bucket.limit_bytes


@given(limited_links())
def test_every_parameter_fits_into_its_field(link: Link) -> None:
    bucket = bucket_of(link)
    assert 0 < bucket.rate_bytes_per_s < 1 << 32
    assert 0 < bucket.limit_bytes < 1 << 32
    assert bucket.burst_bytes / bucket.rate_bytes_per_s < (1 << 32) * 64e-9


def test_superpackets_pass_unsplit_only_on_a_fast_link_with_a_long_queue() -> None:
    assert effective_burst_bytes(bucket_of(make_link(1e9, 512 * 1024, 9000))) >= 73 * 1024
    assert bucket_of(make_link(10e6, 512 * 1024, 9000)).burst_bytes < SUPERPACKET_BYTES
    assert bucket_of(make_link(1e9, 64 * 1024, 9000)).burst_bytes < SUPERPACKET_BYTES


def test_a_link_without_a_rate_has_no_bucket() -> None:
    assert TokenBucket.for_link(make_link(None, 512 * 1024, 9000)) is None


@pytest.mark.parametrize(("rate_bps", "mtu_bytes"), [(40e9, 9000), (1e3, 65000)])
def test_a_rate_beyond_the_kernels_is_an_error_that_names_the_link(
    rate_bps: float, mtu_bytes: int
) -> None:
    with pytest.raises(EmulationError, match="h0:eth0 -- s0:eth0"):
        TokenBucket.for_link(make_link(rate_bps, 512 * 1024, mtu_bytes))
