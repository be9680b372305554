"""A worker is closed at the end of its program, whatever else goes wrong there."""

from __future__ import annotations

import pytest

from innet.worker import current, process_end


class FakeWorker:
    def __init__(self, ended: list[str]) -> None:
        self._ended = ended

    def close(self) -> None:
        self._ended.append("worker")


def test_an_exception_in_a_hook_does_not_prevent_the_close(monkeypatch):
    ended: list[str] = []

    def raise_error() -> None:
        raise ValueError("cannot leave")

    monkeypatch.setattr(current, "_worker", FakeWorker(ended))
    monkeypatch.setattr(process_end, "_hooks", [])
    process_end.before_close(lambda: ended.append("first group"))
    process_end.before_close(raise_error)
    process_end.before_close(lambda: ended.append("last group"))
    with pytest.raises(ValueError, match="cannot leave"):
        current.close_worker()
    assert ended == ["last group", "first group", "worker"]
