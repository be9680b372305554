"""Timelines of jobs in Chrome's trace event format: ``innet run --trace``.

* ``recorder``: the records of one process, as lines in a file of its own;
* ``training_phases``: forward, backward and optimizer of a PyTorch program;
* ``merge``: makes one file of these, which a viewer opens;
* ``job_trace``: the launcher's part, from the start of a job to its file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from innet.imports import lazy_names

if TYPE_CHECKING:
    from innet.telemetry.trace.job_trace import JobTrace
    from innet.telemetry.trace.recorder import TRACE_VARIABLE, Recorder

__all__ = ["TRACE_VARIABLE", "JobTrace", "Recorder"]

__getattr__ = lazy_names(
    __name__,
    {
        "JobTrace": "job_trace",
        "TRACE_VARIABLE": "recorder",
        "Recorder": "recorder",
    },
)
