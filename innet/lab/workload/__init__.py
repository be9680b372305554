"""Workloads: what runs on a simulated network, and the files that say so.

* :func:`load_workload` reads a file or a short form; :class:`Workload` is the result;
* ``document`` is the file's schema; ``layer_files`` reads what it refers to.

:mod:`innet.lab.simulation.programs` runs them.
"""

from innet.lab.workload.document import json_schema
from innet.lab.workload.model import Workload, load_workload, parse_workload

__all__ = ["Workload", "json_schema", "load_workload", "parse_workload"]
