"""Users are told when the head of a Ray cluster stops answering, and when it answers again."""

from __future__ import annotations

import asyncio
import threading

from innet.cluster.on_ray import head_watch
from innet.cluster.on_ray.head_watch import HeadWatch


async def test_a_silent_head_and_its_return_are_each_reported_once(monkeypatch) -> None:
    monkeypatch.setattr(head_watch, "_PERIOD_S", 0.01)
    monkeypatch.setattr(head_watch, "_SILENT_S", 0.3)
    answers = threading.Event()
    said: asyncio.Queue[str] = asyncio.Queue()

    def ask() -> None:
        if not answers.is_set():
            answers.wait()

    async with HeadWatch(ask, "10.0.0.1:6379", said.put_nowait):
        assert "at 10.0.0.1:6379 has not answered for 0.3 s. Ray ends all" in await said.get()
        answers.set()
        assert "answers again" in await said.get()
        answers.clear()
        assert "has not answered" in await said.get()
        answers.set()
        assert "answers again" in await said.get()


async def test_a_failed_request_does_not_count_as_an_answer(monkeypatch) -> None:
    monkeypatch.setattr(head_watch, "_PERIOD_S", 0.01)
    monkeypatch.setattr(head_watch, "_SILENT_S", 0.3)
    said: asyncio.Queue[str] = asyncio.Queue()

    def ask() -> None:
        raise ConnectionError("nobody there")

    async with HeadWatch(ask, "10.0.0.1:6379", said.put_nowait):
        assert "has not answered" in await said.get()
