"""Statistics of samples, and the JSON form of a comparison."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.errors import InnetError
from innet.lab.compare.measurement import Comparison, Measurement, percentile

MeasurementFactory = Callable[..., Measurement]


@given(
    st.lists(st.floats(0, 1e3), min_size=1, max_size=40),
    st.floats(0, 1),
)
def test_percentiles_are_those_of_numpy(samples: list[float], fraction: float) -> None:
    assert percentile(samples, fraction) == pytest.approx(np.quantile(samples, fraction))


def test_statistics_describe_the_samples(measurement: MeasurementFactory) -> None:
    m = measurement(samples_s=[0.4, 0.8, 0.5], size_bytes=1000, bound_s=0.25)
    assert m.median_s == 0.5
    assert m.ratio_to_bound == 2.0
    assert m.bandwidth_bytes_per_s == 2000


def test_back_to_back_operations_have_no_bound(
    measurement: MeasurementFactory,
) -> None:
    assert measurement(in_a_row=True).ratio_to_bound is None


def test_the_busiest_link_is_the_one_with_the_longest_transfer_time(
    measurement: MeasurementFactory,
) -> None:
    m = measurement()
    slow = m.links[0].model_copy(update={"rate_bps": 1e6})
    busiest = m.model_copy(update={"links": [slow, m.links[1]]}).busiest_link
    assert busiest is not None
    assert (busiest.source, busiest.destination) == ("h0", "s0")


def test_drops_are_counted_on_all_links(measurement: MeasurementFactory) -> None:
    assert measurement().drops == 7


def test_a_saved_comparison_is_loaded_unchanged(comparison: Comparison, tmp_path: Path) -> None:
    path = tmp_path / "results" / "comparison.json"
    comparison.save(path)
    assert Comparison.load(path) == comparison
    saved = json.loads(path.read_text())["measurements"][0]
    assert saved["median_s"] == 0.5, "readers without innet want the statistics, too"


@pytest.mark.parametrize("text", ["{}", "not JSON", '{"topology": 3}'])
def test_a_file_of_another_kind_is_refused_by_name(text: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(InnetError, match=r"other\.json is not a comparison"):
        Comparison.load(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InnetError, match=r"gone\.json: No such file"):
        Comparison.load(tmp_path / "gone.json")
