"""Runs workloads over algorithms, sizes and seeds, and makes a comparison of what came out.

* ``task`` is one run and its result; ``run`` does it in the simulator, ``emulated_replay`` does a
  replay of requests on an emulated network;
* ``sweep`` does all runs, on all cores; ``outcome`` makes them one
  :class:`~innet.lab.compare.measurement.Comparison`.
"""
