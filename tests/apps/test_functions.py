"""The app of functions with names, whose programs find their forwarder and register with it."""

from __future__ import annotations

from tests.apps.conftest import RunApp


def test_every_rank_calls_and_chains_functions_on_its_host(run_app: RunApp) -> None:
    said = run_app("functions.py", topology="star:2")
    assert sorted(said) == [
        *2 * ["/demo/sum says 16384"],
        *2 * ["24 frames went through /demo/halve and /demo/brightest"],
    ]
