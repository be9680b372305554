"""Workloads: what runs on a simulated network, and the files that say so.

* :func:`load_workload` reads a file or a short form; :class:`Workload` is the result;
* ``document`` is the file's schema; ``layers`` and ``astra_sim`` read what it refers to;
* ``compute`` says how long computing takes on which rank.

:mod:`innet.lab.simulation.programs` runs them.
"""

from innet.lab.simulation.workload.document import json_schema
from innet.lab.simulation.workload.loading import load_workload, parse_workload
from innet.lab.simulation.workload.model import Workload

__all__ = ["Workload", "json_schema", "load_workload", "parse_workload"]
