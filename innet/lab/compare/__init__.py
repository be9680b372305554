"""Compares allreduce algorithms with each other and with foreign programs over the same links.

Start with :func:`innet.lab.compare.sweep.compare`. The modules, in the order of a comparison:

* ``methods``: what can be compared; ``bounds``: what the links allow each of them;
* ``launchers``: start the ranks of one contender on all hosts; ``worker`` is what runs there, and
  ``contenders/`` the code it measures: innet itself, Gloo, Open MPI;
* ``stage``: the network, and the teams on it, which take turns (:mod:`innet.lab.harness`);
* ``sampling``: what the links carried, queued and dropped meanwhile;
* ``sweep``: the whole comparison; ``measurement``: its result, as JSON;
* ``summary``, ``plots``, ``report``: the result for people.

This package imports none of them by itself: the workers need only a part.
"""
