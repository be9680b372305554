"""The record of serving with the pool: as JSON, a picture and a table."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from serving.workers import Served

_MS = 1e3


@dataclass(frozen=True)
class Record:
    """All requests, and the places of their blocks.

    Attributes:
        options: the command line.
        served: of all decode workers, by request.
        workers: the rank that answered each.
        block_bytes: of a block of all layers.
        hits: blocks got by decode workers, by where they were.
        misses: blocks asked for and not got, by why.
        put_bytes: published by all workers.
    """

    options: Mapping[str, str | int | float | None]
    served: list[Served]
    workers: list[int]
    block_bytes: int
    hits: Mapping[str, int]
    misses: Mapping[str, int]
    put_bytes: int

    @property
    def compared(self) -> bool:
        """Whether requests were answered without the pool as well."""
        return any(one.alone_s for one in self.served)

    @property
    def all_equal(self) -> bool:
        """Whether all compared answers are equal with and without the pool."""
        return all(one.equal for one in self.served)

    def save(self, path: Path) -> None:
        """Write it as JSON, and a plot of the same name as PNG."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=2))
        self._plot(path.with_suffix(".png"))

    def show(self, console: Console) -> None:
        """Print it as a table, a row for each decode worker."""
        table = Table(box=box.SIMPLE_HEAD)
        columns = ["decode worker", "requests", "tokens asked", "found", "first token ms"]
        for name in [*columns, *(["without the pool ms", "times as soon"] * self.compared)]:
            table.add_column(name, justify="right")
        for rank in [*sorted(set(self.workers)), None]:
            table.add_row(*self._row(rank), end_section=rank is None)
        console.print(table)
        console.print("times are medians", highlight=False)
        console.print(f"blocks came from: {_listed(self.hits)}", highlight=False)
        console.print(f"blocks missed: {_listed(self.misses)}", highlight=False)
        console.print(
            f"{self.put_bytes / 1e6:.1f} MB were put, in blocks of {self.block_bytes / 1e3:.1f} kB",
            highlight=False,
        )
        if self.compared:
            differing = sum(not one.equal for one in self.served)
            verdict = f"{differing} answers differ" if differing else "all answers are equal"
            console.print(f"with and without the pool, to the bit: {verdict}", highlight=False)

    def _row(self, rank: int | None) -> list[str]:
        of_rank = [
            one
            for one, worker in zip(self.served, self.workers, strict=True)
            if rank in (None, worker)
        ]
        asked = sum(one.prompt_tokens for one in of_rank)
        found = sum(one.found_tokens for one in of_rank)
        with_pool = statistics.median(one.first_token_s for one in of_rank)
        row = [
            "all" if rank is None else str(rank),
            str(len(of_rank)),
            str(asked),
            f"{found / asked:.0%}",
            f"{with_pool * _MS:.1f}",
        ]
        if self.compared:
            alone = statistics.median(one.alone_s for one in of_rank)
            row += [f"{alone * _MS:.1f}", f"{alone / with_pool:.2f}"]
        return row

    def _plot(self, path: Path) -> None:
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot

        figure, (times, places) = pyplot.subplots(1, 2, figsize=(11, 5), layout="constrained")
        found = [one.found_tokens for one in self.served]
        times.scatter(
            found, [one.first_token_s * _MS for one in self.served], label="with the pool"
        )
        if self.compared:
            alone = [one.alone_s * _MS for one in self.served]
            times.scatter(found, alone, marker="x", label="without")
        times.set_xlabel("tokens of the prompt that the pool had")
        times.set_ylabel("ms to the first token")
        times.set_ylim(bottom=0)
        times.legend()
        missed = {f"missed: {why}": count for why, count in self.misses.items()}
        counts = {what: count for what, count in {**self.hits, **missed}.items() if count}
        places.barh(list(counts), list(counts.values()))
        places.set_xlabel("blocks")
        figure.savefig(path)
        pyplot.close(figure)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{what} {count}" for what, count in counts.items() if count) or "none"
