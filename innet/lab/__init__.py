"""Experiments on networks: comparisons, simulations, replays of request traces.

May import every other package but the command line. No other package imports it. From the bottom:

* :mod:`~innet.lab.traces` and :mod:`~innet.lab.workload`: jobs, and the files that describe them;
* :mod:`~innet.lab.harness`: ranks that join a conductor and take turns;
* :mod:`~innet.lab.compare`: allreduce algorithms beside foreign programs on emulated networks, and
  the result of any experiment as JSON, table and report;
* :mod:`~innet.lab.replay`: workers that replay a trace of requests over a pool of blocks;
* :mod:`~innet.lab.simulation`: networks in virtual time, and the programs of a workload on them;
* :mod:`~innet.lab.experiment`: combines many runs, simulated or emulated, into one result.

Start with :func:`innet.lab.compare.sweep.compare`, :class:`innet.lab.simulation.Simulation` or
:func:`innet.lab.experiment.sweep.sweep`.
"""
