"""Workloads: the jobs that run on a network, and the files that describe them.

* :func:`load_workload` reads a file or a short form; :class:`Workload` is the result;
* ``document`` is the file's schema; ``layer_files`` reads files that it names.

:mod:`innet.lab.simulation.programs` runs the jobs.
"""

from innet.lab.workload.document import json_schema
from innet.lab.workload.model import Workload, load_workload, parse_workload

__all__ = ["Workload", "json_schema", "load_workload", "parse_workload"]
