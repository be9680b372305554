"""Runs workloads over algorithms, sizes and seeds, and combines the runs into a comparison.

``sweep`` runs all tasks; ``run`` does one in the simulator, ``emulated_replay`` a replay over an
emulated network; ``outcome`` makes a :class:`~innet.lab.compare.measurement.Comparison` of them.
"""
