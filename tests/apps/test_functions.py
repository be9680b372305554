"""The app of functions with names, whose programs find their forwarder and register with it."""

from __future__ import annotations

from tests.apps.conftest import RunApp


def test_ranks_call_and_chain_functions_of_another_rank(run_app: RunApp) -> None:
    said = run_app("functions.py", topology="star:3")
    assert sorted(said) == [
        *2 * ["/demo/sum says 16384"],
        *2 * ["24 frames went through /demo/halve and /demo/brightest"],
    ]
