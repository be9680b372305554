"""Experiments on networks: comparisons, simulations, replays of request traces.

May import every other package but the command line. No other package imports it.
Start with :mod:`innet.lab.compare`, :mod:`innet.lab.simulation` or :mod:`innet.lab.replay`.
"""
