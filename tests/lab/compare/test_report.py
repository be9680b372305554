"""The comparison for people: table, sentences, page."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console

from innet.lab.compare.measurement import Comparison, LinkTraffic, Measurement
from innet.lab.compare.plots import plot_one_size, plot_ratios
from innet.lab.compare.report import render_report, render_table, write_report
from innet.lab.compare.summary import summary_sentences
from tests.observe.web.browser import browsing, close_browser

MeasurementFactory = Callable[..., Measurement]
_VOID = {"meta", "br", "hr", "link", "img", "input"}


class Balance(HTMLParser):
    """Checks that every element is closed where it was opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module")
def page(comparison: Comparison) -> str:
    """The page of a comparison with a hostile name: figures take long to draw."""
    return render_report(comparison.model_copy(update={"links": "<b>8 links</b>"}))


def test_the_page_is_well_formed_and_needs_nothing_else(page: str) -> None:
    parser = Balance()
    parser.feed(page)
    assert parser.open == []
    assert not re.search(r"<(script|link|img|iframe|object)\b|@import|url\((?!#)", page)
    addresses = re.findall(r"""(?:src|href)=["']([^"']+)""", page)
    assert all(address.startswith("#") for address in addresses)


def test_the_page_is_readable_on_light_and_dark_backgrounds(page: str) -> None:
    drawings = "".join(re.findall(r"<svg.*?</svg>", page, re.DOTALL))
    assert drawings
    assert re.findall(r"#[0-9a-f]{6}\b", drawings) == []
    assert "var(--ink)" in drawings


def test_a_report_without_matplotlib_lacks_only_the_figures(
    comparison: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = render_report(comparison)
    assert "pip install &#x27;innet[plots]&#x27;" in page
    assert "<svg" not in page
    assert all(sentence in unescape(page) for sentence in summary_sentences(comparison))


def test_names_are_escaped(page: str) -> None:
    assert "8 links" in page
    assert "<b>" not in page


def test_links_to_recordings_are_relative_to_the_report(
    comparison: Comparison, tmp_path: Path
) -> None:
    report = tmp_path / "report.html"
    beside, elsewhere = tmp_path / 'a "b".innetrec', tmp_path / "more" / "c.innetrec"
    write_report(comparison, report, [beside, elsewhere])
    page = report.read_text(encoding="utf-8")
    assert 'href="a%20%22b%22.innetrec"' in page
    assert "<code>innet watch more/c.innetrec --web</code>" in page
    assert "innet watch &#x27;a &quot;b&quot;.innetrec&#x27; --web" in page


def test_every_measurement_and_failure_is_shown(comparison: Comparison, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "report.html"
    write_report(comparison, path)
    page = path.read_text(encoding="utf-8")
    assert "Recordings" not in page
    console = Console(record=True, width=250, file=(tmp_path / "log").open("w"))
    console.print(render_table(comparison))
    for text in (page, console.export_text()):
        assert "ps could not be measured from 1 MiB on: rank 3 of innet has left" in text
        for m in comparison.measurements:
            assert m.method in text


@pytest.mark.parametrize("width", [60, 80, 150, 200])
def test_narrow_terminals_omit_columns_and_cut_no_name(
    measurement: MeasurementFactory, comparison: Comparison, width: int
) -> None:
    rows = [measurement(method=name) for name in ("halving-doubling", "ps:server=h3")]
    console = Console(width=width)
    with console.capture() as capture:
        console.print(render_table(comparison.model_copy(update={"measurements": rows}), width))
    text = capture.get()
    assert max(map(len, text.splitlines())) <= width
    for name in ("halving-doubling", "ps:server=h3", "median", "ratio"):
        assert name in text
    assert "…" not in text
    assert ("a wider terminal shows" in text) == (width < 200)


def test_sentences_name_the_speed_and_its_cause(comparison: Comparison) -> None:
    text = " ".join(summary_sentences(comparison))
    assert "In-network aggregation is 2.00 times as fast as Gloo: ring" in text
    assert "the bytes on the links explain 1.00 of it" in text


def test_a_difference_within_the_spread_counts_as_none(
    comparison: Comparison, measurement: MeasurementFactory
) -> None:
    # Of three operations of the peer, two waited for a timeout.
    rows = [
        measurement(samples_s=[0.0008, 0.0009, 0.5]),
        measurement(method="gloo", title="Gloo: ring", samples_s=[0.001, 0.5, 0.5]),
    ]
    text = " ".join(summary_sentences(comparison.model_copy(update={"measurements": rows})))
    assert "times as fast" not in text
    assert "no difference measured from Gloo: ring" in text
    assert "Between in-network aggregation and Gloo: ring no difference measured" in text
    assert "0.5 s (3 samples, spread 0.499 s)" in text


def test_the_spread_of_many_samples_excludes_outliers(measurement: MeasurementFactory) -> None:
    fast = measurement(samples_s=[1.0 + 0.01 * i for i in range(20)] + [9.0])
    slow = measurement(samples_s=[2.0 + 0.01 * i for i in range(20)])
    assert fast.differs_from(slow)
    assert slow.differs_from(fast)


def test_the_number_of_samples_is_stated(comparison: Comparison) -> None:
    console = Console(record=True, width=250)
    console.print(render_table(comparison))
    assert "samples" in console.export_text()
    assert "Gloo: ring (3 samples)" in plot_one_size(comparison)


def test_absent_foreign_libraries_are_explained(comparison: Comparison) -> None:
    own = [m for m in comparison.measurements if m.method == "inc"]
    local = comparison.model_copy(update={"mode": "local", "measurements": own})
    (told,) = (sentence for sentence in summary_sentences(local) if "--mode netns" in sentence)
    assert "no link has a rate, a delay or loss" in told  # each of these excludes them
    assert not any("--mode netns" in sentence for sentence in summary_sentences(comparison))


def test_a_replay_is_described_in_terms_of_requests_and_blocks(
    comparison: Comparison, measurement: MeasurementFactory
) -> None:
    places = {"local": 1, "switches": 2, "homes": 0, "computed": 7, "late": 0, "puts": 7}
    rows = [
        measurement(
            method=design, title=f"{design}: blocks", bound_s=None,
            blocks={**places, "by_switch": {}, "lost_puts": 0},
        )
        for design in ("network", "home")
    ]  # fmt: skip
    replay = comparison.model_copy(update={"measurements": rows, "mode": "sim", "failures": []})
    first, *_ = summary_sentences(replay)
    assert "median time to the first token is: network 0.5 s, home 0.5 s" in first
    page = render_report(replay)
    assert "3 requests of each design" in page
    assert "allreduce of innet" not in page
    assert "red: bound" not in page
    assert "vertical lines" not in page  # nothing happened


def test_axes_begin_at_zero_seconds(comparison: Comparison) -> None:
    page = render_report(comparison)
    assert ">0 s<" in page
    assert "0 µs" not in page


def warnings_of(comparison: Comparison, *measurements: Measurement) -> list[str]:
    shown = comparison.model_copy(update={"measurements": list(measurements)})
    return [line for line in summary_sentences(shown) if line.startswith("Warning: ")]


def test_figures_from_an_overload_are_marked(
    comparison: Comparison, measurement: MeasurementFactory
) -> None:
    clean: dict[str, object] = {"links": [], "deepest_queue": None}
    dropped = measurement(method="ring", title="ring (innet)")
    assert warnings_of(comparison, dropped) == [
        "Warning: ring (innet) at 1 MiB dropped 7 packets: "
        "this figure shows a defect or an overload, not the algorithm."
    ]
    slow = measurement(method="gloo", title="Gloo: ring", samples_s=[1.3], **clean)
    assert warnings_of(comparison, slow) == [
        "Warning: Gloo: ring at 1 MiB took 3.2 times its bound: "
        "this figure shows a defect or an overload, not the algorithm."
    ]
    page = render_report(comparison.model_copy(update={"measurements": [dropped]}))
    assert "a defect or an overload" in page


def test_latency_and_the_usual_drops_of_tcp_do_not_count_as_overload(
    comparison: Comparison, measurement: MeasurementFactory
) -> None:
    clean: dict[str, object] = {"links": [], "deepest_queue": None}
    small = measurement(size_bytes=1024, samples_s=[0.004], bound_s=0.001, **clean)
    tcp = measurement(method="tcp-ring", title="ring over TCP")
    assert warnings_of(comparison, small, tcp, measurement(**clean)) == []
    many_steps = measurement(
        method="ring", samples_s=[9.0], bound_s=1.0, completion_bound_s=8.0, **clean
    )
    assert warnings_of(comparison, many_steps) == []


def test_a_wrong_result_is_not_hidden(comparison: Comparison) -> None:
    wrong = comparison.measurements[0].model_copy(update={"correct": False})
    spoiled = comparison.model_copy(update={"measurements": [wrong]})
    assert any("WRONG RESULTS" in sentence for sentence in summary_sentences(spoiled))
    assert "WRONG RESULT" in render_report(spoiled)


def test_a_comparison_without_results_still_has_a_page(comparison: Comparison) -> None:
    empty = comparison.model_copy(update={"measurements": []})
    assert "could not be measured" in render_report(empty)


def test_the_page_shows_the_distance_from_the_bound(comparison: Comparison) -> None:
    near = [m for m in comparison.measurements if (m.ratio_to_bound or 9.0) < 1.9]
    svg = plot_ratios(comparison.model_copy(update={"measurements": near}))
    assert svg is not None
    labels = {float(text) for text in re.findall(r">([0-9.]+)</text>", svg)}
    assert len(labels) >= 2


@pytest.mark.web
@pytest.mark.parametrize("width", [1280, 2560])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_shows_all_columns(
    measurement: MeasurementFactory, comparison: Comparison, width: int, scheme: str, tmp_path: Path
) -> None:
    """Also with long names, figures of the processor, and slots."""
    rows = [
        measurement(method=method, machine_cpu_s=0.1234, links=[link])
        for method in ("inc", "halving-doubling", "ps:server=h3")
        for link in [
            LinkTraffic(
                source="spine0",
                destination="leaf12",
                rate_bps=2e8,
                bytes_per_operation=1.01 * 2**20,
                drops=0,
            )
        ]
    ]
    path = tmp_path / "report.html"
    write_report(comparison.model_copy(update={"measurements": rows}), path)
    try:
        viewport = {"width": width, "height": 900}
        with browsing(allows_errors=True, viewport=viewport, color_scheme=scheme) as page:
            page.goto(path.as_uri())
            sizes = page.evaluate(
                "[...document.querySelectorAll('.scroll')].map((e) =>"
                " [e.scrollWidth, e.clientWidth])"
            )
    finally:
        close_browser()
    assert sizes
    assert all(needed <= given for needed, given in sizes), sizes
