"""Trains with Hugging Face's Trainer over innet.

innet run star8 -- python apps/with_trainer.py
"""

from __future__ import annotations

import tempfile
from typing import Any

import torch.distributed as dist
from transformers import Trainer, TrainerCallback, TrainingArguments
from with_frameworks.training import (
    WORKLOADS,
    StepTimer,
    parse_arguments,
    report,
)


class _Timing(TrainerCallback):
    def __init__(self, timer: StepTimer) -> None:
        self._timer = timer

    def on_step_end(self, *arguments: Any, **others: Any) -> None:
        self._timer.end_step()


def main() -> None:
    """Train, and print the loss and the time of a step."""
    arguments = parse_arguments(__doc__)
    workload = WORKLOADS[arguments.model]
    # Trainer takes Gloo on processors, unless there is a process group already.
    dist.init_process_group(arguments.backend)
    timer = StepTimer()
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=workload.make_model(),
            args=TrainingArguments(
                output_dir=folder,
                use_cpu=True,
                max_steps=arguments.steps,
                per_device_train_batch_size=workload.batch,
                learning_rate=1e-3,
                report_to="none",
                save_strategy="no",
                disable_tqdm=True,
            ),
            train_dataset=workload.make_data(),
            callbacks=[_Timing(timer)],
        )
        result = trainer.train()
    report(result.training_loss, timer)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
