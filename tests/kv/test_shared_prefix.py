"""Prompts that one process has computed, in another one."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import RunJob


def test_another_process_continues_from_a_shared_prefix(run_job: RunJob, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"a secret of one tenant and no other")
    secret.chmod(0o600)
    result = run_job("shared_prefix.py", [str(secret)], topology="star:2")
    assert not result.failure
    put, again = result.said("h0").splitlines()
    assert put == "put 96 tokens"
    assert again.startswith("this process has opened this tenant's pool already: close that")
    assert result.said("h1").splitlines() == [
        "found 96 tokens, the same: True",
        "layers: [(0, 96), (2, 96)]",
        "with another secret: 0",
        "places: ['local memory', 'network']",
    ]
