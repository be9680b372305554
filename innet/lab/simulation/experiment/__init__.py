"""Runs workloads over algorithms, sizes and seeds, and makes a comparison of what came out.

* ``task`` is one run, ``run`` does it, ``result`` is what it gives;
* ``queue_watch`` looks at the queues meanwhile;
* ``sweep`` does all runs, on all cores; ``outcome`` makes them one
  :class:`~innet.lab.compare.measurement.Comparison`.
"""
