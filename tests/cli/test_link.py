"""``innet link``: what ranks notice of a link that changes while their network is up."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from .runs import invoked, of_ranks, read_until, started

SUM = """
import sys, numpy as np, innet
from innet.errors import DeadlineExceeded
comm = innet.init()
comm.timeout_s = float(sys.argv[1])
try:
    print("sum", comm.allreduce(np.ones(10, np.float32))[0])
except DeadlineExceeded:
    print("no sum")
"""


@pytest.fixture(scope="module", params=["local", pytest.param("netns", marks=pytest.mark.netns)])
def network(registry: object, request: pytest.FixtureRequest) -> Iterator[str]:
    """The id of a network that is up."""
    run_id = f"links-{request.param}"
    with started("up", "star:2", "--mode", request.param, "--name", run_id) as launcher:
        read_until(launcher, f"innet down {run_id}")
        yield run_id
        invoked("down", run_id)


def summed(network: str, timeout_s: float) -> bool:
    """Whether two ranks have a sum within the time."""
    job = invoked("run", "--on", network, "--", sys.executable, "-c", SUM, str(timeout_s))
    assert job.returncode == 0, job.stdout + job.stderr
    lines = of_ranks(job.stdout)
    assert lines in (["[h0] sum 2.0", "[h1] sum 2.0"], ["[h0] no sum", "[h1] no sum"]), lines
    return "no sum" not in lines[0]


def link(network: str, *arguments: str) -> str:
    """What ``innet link`` prints."""
    done = invoked("link", *arguments, "--run", network)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_cut_lasts_until_it_is_undone(network: str) -> None:
    told = link(network, "down", "h0", "s0")
    assert told == "link h0--s0 is down until `innet link up h0 s0`"
    assert not summed(network, 1.0)
    assert link(network, "up", "s0", "h0") == "link h0--s0 is as in the topology"
    assert summed(network, 60.0)


def test_a_cut_ends_by_itself(network: str) -> None:
    assert link(network, "down", "h1", "s0", "--for", "500ms").endswith("is down for 500ms")
    assert summed(network, 60.0)


def test_a_link_is_slow_and_lossy_for_a_while_and_sums_are_right(network: str) -> None:
    told = link(network, "change", "h1", "s0", "--rate", "5mbit", "--delay", "2ms", "--loss", "5%")
    assert told == ("link h1--s0 has delay 2ms, loss 5%, rate 5mbit until `innet link up h1 s0`")
    assert summed(network, 60.0)
    link(network, "up", "h1", "s0")
    assert summed(network, 60.0)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("down", "h9", "s0"), "it has no node h9; `innet topology show` lists its nodes"),
        (("down", "h0", "h1"), "h0 has links to s0"),
        (("change", "h0", "s0"), "expected --rate, --delay or --loss, found none"),
        (("change", "h0", "s0", "--loss", "100%"), "a loss of at most 99%"),
        (("down", "h0", "s0", "--for", "-1s"), "expected seconds"),
    ],
)
def test_wrong_input_is_refused(network: str, arguments: tuple[str, ...], why: str) -> None:
    done = invoked("link", *arguments, "--run", network)
    assert done.returncode != 0
    assert why in " ".join(done.stderr.replace("│", " ").split())
