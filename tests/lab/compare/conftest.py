"""Fixtures of the comparison's tests: a recorded comparison, an empty registry of runs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator

import pytest

from innet.lab.compare.measurement import (
    Comparison,
    Failure,
    LinkTraffic,
    Machine,
    Measurement,
    QueueSeries,
)

MeasurementFactory = Callable[..., Measurement]


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty registry of runs, under a path short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="innet-test-") as directory:
        monkeypatch.setenv("XDG_RUNTIME_DIR", directory)
        yield


@pytest.fixture
def measurement() -> MeasurementFactory:
    """Makes a measurement; keyword arguments replace its fields."""
    return _measurement


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    """Two sizes of three methods, one of which failed at the larger size."""
    sizes = (4096, 1 << 20)
    return Comparison(
        topology="star8",
        hosts=8,
        switches=1,
        links="8 links of 200 Mbit/s",
        mode="netns",
        signature="gmac",
        machine=Machine.here(),
        versions={"innet": "innet 0.1.0", "gloo": "Gloo of PyTorch <2.13>"},
        measurements=[
            *(_measurement(size_bytes=size) for size in sizes),
            *(
                _measurement(
                    method="gloo", title="Gloo: ring", size_bytes=size, samples_s=[0.9, 1.0, 1.1]
                )
                for size in sizes
            ),
            _measurement(method="ps", title="parameter server (incast)", size_bytes=4096),
        ],
        failures=[Failure(method="ps", size_bytes=1 << 20, reason="rank 3 of innet has left")],
    )


def _measurement(**fields: object) -> Measurement:
    document: dict[str, object] = {
        "method": "inc",
        "title": "in-network aggregation",
        "size_bytes": 1 << 20,
        "samples_s": [0.5, 0.4, 0.6],
        "in_a_row": False,
        "correct": True,
        "bound_s": 0.4,
        "links": [
            LinkTraffic(
                source=source,
                destination=destination,
                rate_bps=200e6,
                bytes_per_operation=carried,
                drops=drops,
            )
            for source, destination, carried, drops in (
                ("h0", "s0", 1.0e6, 0),
                ("s0", "h0", 1.1e6, 7),
            )
        ],
        "deepest_queue": QueueSeries(
            source="s0",
            destination="h0",
            time_s=[0.0, 0.1, 0.2],
            depth_bytes=[0, 300_000, 100],
            drops=[0, 3, 7],
        ),
        "retransmissions": 7,
        "cpu_s": 0.01,
    }
    return Measurement.model_validate(document | fields)
