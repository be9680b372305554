"""Chromium of the system, driven by Playwright, and what the page shows in it."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str:
    """The path of the browser; skips the test where there is none."""
    pytest.importorskip("playwright", reason="playwright is not installed: pip install playwright")
    for name in _NAMES:
        found = shutil.which(name)
        if found is not None:
            return found
    pytest.skip("no browser: install Debian's chromium, and the page is tested in it")


@contextlib.contextmanager
def browsing(
    *, allows_errors: bool = False, reduced_motion: bool = False, **options: Any
) -> Iterator[Any]:
    """The page of the browser, with nothing left of its last user.

    Errors of scripts, and requests to other hosts, fail the test. With further ``options``, a page
    of a new context.
    """
    page, wrong = _page(options)
    wrong.clear()
    page.emulate_media(reduced_motion="reduce" if reduced_motion else "no-preference")
    try:
        yield page
    finally:
        if options:
            page.context.close()
        else:
            with contextlib.suppress(Exception):  # a page without an origin has no storage
                page.evaluate("sessionStorage.clear()")
            page.goto("about:blank")
    assert allows_errors or wrong == []


_started: list[Any] = []
"""Playwright and its browser, once :func:`browsing` has started them: that takes longer than most
tests."""

_shared: list[tuple[Any, list[str]]] = []
"""A page without options, which takes longer to make than most tests, and what went wrong on it."""


def _page(options: dict[str, Any]) -> tuple[Any, list[str]]:
    if _shared and not options:
        return _shared[0]
    page = _browser().new_context(**options).new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda m: wrong.append(m.text) if m.type == "error" else None)
    page.on("request", lambda request: _check_own(request.url, wrong))
    page.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
    if not options:
        _shared.append((page, wrong))
    return page, wrong


def _browser() -> Any:
    path = chromium()
    from playwright.sync_api import sync_playwright

    if not _started:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        playwright = sync_playwright().start()
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        _started.extend((playwright, browser))
    return _started[1]


def close_browser() -> None:
    """End the browser, and the event loop of Playwright, beside which no other can run."""
    if _started:
        playwright, browser = _started
        _started.clear()
        _shared.clear()
        browser.close()
        playwright.stop()


def _check_own(url: str, wrong: list[str]) -> None:
    if not url.startswith(("http://127.0.0.1:", "blob:", "data:", "about:")):
        wrong.append(f"request to {url}")


def wait_for(page: Any, condition: str, timeout_s: float = 30) -> None:
    """Wait until an expression of the page is true.

    The page's own policy forbids ``wait_for_function``, which makes code of a text in the page.
    """
    deadline = time.monotonic() + timeout_s
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {condition}"
        page.evaluate("new Promise((done) => requestAnimationFrame(done))")


class MainThread:
    """The thread of a page that scripts and pictures run on.

    Its processor time leaves out what other programs of the machine take.
    """

    def __init__(self, page: Any) -> None:
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def used_s(self) -> float:
        """The processor time of its tasks so far."""
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        return next(float(m["value"]) for m in metrics if m["name"] == "TaskDuration")


def pixels(page: Any) -> bytes:
    """The picture of the network."""
    shot: bytes = page.locator("#canvas").screenshot()
    return shot


def changes(page: Any, action: Callable[[], None], condition: str) -> bool:
    """Whether the picture of the network differs once ``action`` has led to ``condition``."""
    before = pixels(page)
    action()
    wait_for(page, condition)
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return pixels(page) != before
