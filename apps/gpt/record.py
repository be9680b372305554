"""The record of a training: figures as JSON, and a picture of them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass
class Record:
    """One training, as rank 0 saw it.

    Attributes:
        backend: of ``torch.distributed``.
        parallel: the layout of the ranks, such as ``fsdp:2,tp:4``.
        ranks: processes that trained together.
        parameters: of the whole model.
        options: the command line.
        first_step: 0, or the step of the checkpoint that the training went on from.
        losses: of each step, over the whole batch, in nats per byte.
        step_s: seconds of each step.
        waited_s: the part of each step that rank 0 waited for communication.
        waited_share: the share of the training that each rank waited, by rank.
        tokens_per_s: bytes of text that all ranks together learned from in a second.
    """

    backend: str
    parallel: str
    ranks: int
    parameters: int
    options: dict[str, str | int | float | None]
    first_step: int = 0
    losses: list[float] = field(default_factory=list)
    step_s: list[float] = field(default_factory=list)
    waited_s: list[float] = field(default_factory=list)
    waited_share: list[float] = field(default_factory=list)
    tokens_per_s: float = 0.0

    def save(self, path: Path) -> None:
        """Write it as JSON, and a plot of the same name as PNG."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=2))
        self._plot(path.with_suffix(".png"))

    def _plot(self, path: Path) -> None:
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot

        steps = range(self.first_step + 1, self.first_step + len(self.losses) + 1)
        figure, (loss, time) = pyplot.subplots(2, sharex=True, figsize=(8, 6), layout="constrained")
        figure.suptitle(
            f"{self.parameters / 1e6:.1f} M parameters, {self.parallel} over {self.backend}, "
            f"{self.tokens_per_s:,.0f} bytes of text per second"
        )
        loss.plot(steps, self.losses)
        loss.set_ylabel("loss in nats per byte")
        computed_s = [
            step - waited for step, waited in zip(self.step_s, self.waited_s, strict=True)
        ]
        time.stackplot(
            steps, computed_s, self.waited_s, labels=["computing", "waiting for communication"]
        )
        time.set_ylabel("seconds of rank 0")
        time.set_xlabel("step")
        time.xaxis.get_major_locator().set_params(integer=True)
        time.margins(y=0.3)  # room for the legend above the longest step
        time.set_ylim(bottom=0)
        time.legend(loc="upper right")
        figure.savefig(path)
        pyplot.close(figure)
