"""The results of the comparison: as JSON, a picture and a table."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table


@dataclass
class Curve:
    """One training, as rank 0 saw it.

    Attributes:
        method: ``synchronous`` or ``asynchronous``.
        seconds: wall time since the start, of each evaluation.
        losses: at that time, in nats per byte.
        worker_steps: of each rank, at the end.
    """

    method: str
    seconds: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    worker_steps: list[int] = field(default_factory=list)

    @property
    def steps_per_s(self) -> float:
        """Steps of all workers in a second."""
        return sum(self.worker_steps) / self.seconds[-1]

    def seconds_to(self, loss: float) -> float | None:
        """Until the loss was first as low as ``loss``."""
        reached = (at for at, had in zip(self.seconds, self.losses, strict=True) if had <= loss)
        return next(reached, None)


@dataclass
class Pulls:
    """Bytes that asynchronous workers fetched from servers on other hosts, and that these sent.

    Attributes:
        fetched_bytes: by all workers, of parameters.
        left_servers_bytes: on the servers' links, of everything.
    """

    fetched_bytes: int = 0
    left_servers_bytes: int = 0


@dataclass
class Comparison:
    """Both trainings."""

    options: dict[str, str | int | float | None]
    parameters: int
    curves: list[Curve]
    pulls: Pulls

    def save(self, path: Path) -> None:
        """Write it as JSON, and a plot of the same name as PNG."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=2))
        self._plot(path.with_suffix(".png"))

    def show(self, console: Console) -> None:
        """Print it as a table."""
        goal = max(curve.losses[-1] for curve in self.curves)
        table = Table(box=box.SIMPLE_HEAD)
        columns = ("training", "steps", "steps/s", "seconds", "last loss", f"s to {goal:.3f}")
        for name in (*columns, "steps of each rank"):
            table.add_column(name, justify="left" if name == "training" else "right")
        for curve in self.curves:
            reached_s = curve.seconds_to(goal)
            table.add_row(
                curve.method,
                str(sum(curve.worker_steps)),
                f"{curve.steps_per_s:.1f}",
                f"{curve.seconds[-1]:.1f}",
                f"{curve.losses[-1]:.3f}",
                "never" if reached_s is None else f"{reached_s:.1f}",
                " ".join(map(str, curve.worker_steps)),
            )
        console.print(table)
        console.print(
            f"asynchronous workers fetched {self.pulls.fetched_bytes / 1e6:.1f} MB of parameters "
            f"from other hosts; {self.pulls.left_servers_bytes / 1e6:.1f} MB left the servers",
            highlight=False,
        )

    def _plot(self, path: Path) -> None:
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot

        figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
        for curve in self.curves:
            axes.plot(curve.seconds, curve.losses, marker=".", label=curve.method)
        slow = self.options.get("slow_rank")
        factor = self.options.get("slow_factor")
        delay = "no slow rank" if slow is None else f"rank {slow} is {factor:g} times as slow"
        axes.set_title(f"{self.parameters / 1e6:.2f} M parameters, {delay}")
        axes.set_xlabel("seconds of wall time")
        axes.set_ylabel("loss in nats per byte")
        axes.legend()
        figure.savefig(path)
        pyplot.close(figure)


class Progress:
    """Fills a curve at rank 0, an evaluation every so often, and prints how far it is."""

    _BAR = 20

    def __init__(
        self, curve: Curve, evaluate: Callable[[], float], total_steps: int, every_s: float
    ) -> None:
        """``total_steps`` is of all workers; ``evaluate`` gives the loss."""
        self._curve = curve
        self._evaluate = evaluate
        self._total_steps = total_steps
        self._every_s = every_s
        self._began_s = time.perf_counter()
        self._next_s = 0.0

    def report(self, steps: int, *, last: bool = False) -> None:
        """After ``steps`` of all workers; evaluates when it is time."""
        now_s = time.perf_counter() - self._began_s
        if now_s < self._next_s and not last:
            return
        loss = self._evaluate()
        self._next_s = time.perf_counter() - self._began_s + self._every_s
        self._curve.seconds.append(now_s)
        self._curve.losses.append(loss)
        filled = min(self._BAR, self._BAR * steps // self._total_steps)
        print(
            f"{self._curve.method}: [{'#' * filled}{'.' * (self._BAR - filled)}] "
            f"{steps}/{self._total_steps} steps, loss {loss:.4f}, {now_s:.1f} s",
            flush=True,
        )
