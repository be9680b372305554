"""A comparison as a table on the terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from innet.lab.compare.measurement import BlockPlaces, Comparison, Measurement
from innet.lab.compare.quantities import format_bytes, format_rate, format_seconds
from innet.lab.compare.summary import summary_sentences

_ABSENT = "-"

WIDE = 150
"""Columns of a terminal that all figures of a measurement fit into."""


def render_table(comparison: Comparison, width: int = WIDE) -> RenderableType:
    """The table of all measurements, what failed, and the summary.

    Args:
        comparison: what to show.
        width: columns of the terminal; below :data:`WIDE` only the main figures are shown.

    Example::

        console.print(render_table(comparison, console.width))
    """
    columns = columns_of(comparison)
    shown = [name for name in columns if width >= WIDE or name in _MAIN_COLUMNS]
    title = f"{comparison.workload} on {comparison.topology}, {comparison.mode}: {comparison.links}"
    table = Table(title=title, title_justify="left", header_style="bold", pad_edge=False)
    for name in shown:
        table.add_column(name, justify="left" if name == "method" else "right")
    for size_bytes in comparison.sizes_bytes:
        table.add_section()
        found = (comparison.measurement(method, size_bytes) for method in comparison.methods)
        rows = [measurement for measurement in found if measurement is not None]
        fastest_s = min(row.median_s for row in rows)
        for row in rows:
            style = "bold green" if row.median_s == fastest_s else ""
            cells = table_cells(row)
            table.add_row(
                *(cells[name] for name in shown), style=style if row.correct else "bold red"
            )
    parts: list[RenderableType] = [table]
    parts += [Text(f"• {sentence}") for sentence in summary_sentences(comparison)]
    return Group(*parts)


def columns_of(comparison: Comparison) -> list[str]:
    """The headings of a comparison's table: keys of :func:`table_cells`."""
    if comparison.is_replay:
        return list(_REPLAY_COLUMNS)
    absent = {"p95", "cpu" if comparison.mode == "sim" else "slots"}
    if not any(m.blocks for m in comparison.measurements):
        absent |= set(_BLOCK_COLUMNS)
    return [name for name in _COLUMNS if name not in absent]


_BLOCK_COLUMNS = ("hits", "one store", "ideal", "local", "switches", "homes", "computed", "late")
_COLUMNS = (
    "size", "method", "median", "p10 to p90", "samples", "p95", "bandwidth", "bound", "ratio",
    "busiest link", "deepest queue", "drops", "resent", "slots", "cpu", *_BLOCK_COLUMNS,
)  # fmt: skip
_MAIN_COLUMNS = (
    "size", "method", "median", "samples", "bound", "ratio", "deepest queue", "drops", "hits",
    "one store", "ideal", "computed",
)  # fmt: skip
_REPLAY_COLUMNS = (
    "size", "method", "hits", "one store", "ideal", "local", "switches", "homes", "computed",
    "late", "median", "p95", "busiest link", "drops", "resent",
)  # fmt: skip


def table_cells(measurement: Measurement) -> dict[str, str]:
    """One measurement as text, by the headings of its columns."""
    m = measurement
    busiest = m.busiest_link
    cells = (
        format_bytes(m.size_bytes),
        m.method if m.correct else f"{m.method}: WRONG RESULT",
        format_seconds(m.median_s),
        f"{format_seconds(m.p10_s)} to {format_seconds(m.p90_s)}",
        str(len(m.samples_s)),
        format_seconds(m.p95_s),
        format_rate(8 * m.bandwidth_bytes_per_s),
        _ABSENT if m.bound_s is None else format_seconds(m.bound_s),
        _ABSENT if m.ratio_to_bound is None else f"{m.ratio_to_bound:.2f}",
        _ABSENT if busiest is None else f"{busiest} {format_bytes(busiest.bytes_per_operation)}",
        format_bytes(m.deepest_queue_bytes),
        str(m.drops),
        str(m.retransmissions),
        _ABSENT if m.simulated is None else str(m.simulated.slots_in_use_max),
        format_seconds(m.cpu_s),
        *_block_cells(m.blocks),
    )
    return dict(zip(_COLUMNS, cells, strict=True))


def _block_cells(blocks: BlockPlaces | None) -> tuple[str, ...]:
    if blocks is None:
        return (_ABSENT,) * len(_BLOCK_COLUMNS)
    asked = max(blocks.asked, 1)
    places = (blocks.local, blocks.switches, blocks.homes, blocks.computed)
    shares = [f"{count / asked:.3f}" for count in places]
    references = (
        _ABSENT if rate is None else f"{rate:.3f}"
        for rate in (blocks.one_store_rate, blocks.ideal_rate)
    )
    return (f"{blocks.hit_rate:.3f}", *references, *shares, str(blocks.late))
