"""Compares allreduce algorithms with each other and with foreign programs over the same links.

Start with :func:`innet.lab.compare.sweep.compare`, which measures a whole comparison.

* ``methods``: what can be compared, and the bounds;
* ``launchers``: the network, and the processes of each contender; ``contender`` is a rank's process
  and the libraries that it measures;
* ``sampling``: bytes, queues and drops of the links during a turn;
* ``measurement``: the result of any experiment, as JSON; ``report`` and ``plots`` show it.
"""
