"""Structured logs of the processes of a run.

* ``json_lines``: a record as one JSON document on a line;
* ``configuration``: who logs where;
* ``output``: where the launcher writes what processes print;
* ``job_output``: what workers print, in the launcher's output of the same form.
"""

from innet.telemetry.logs.configuration import LogContext, configure_logs

__all__ = ["LogContext", "configure_logs"]
