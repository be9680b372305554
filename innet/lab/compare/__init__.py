"""Compares allreduce algorithms with each other and with foreign programs over the same links.

Where to begin: :func:`innet.lab.compare.sweep.compare`. The modules, in the order of a comparison:

* ``methods``: what can be compared; ``bounds``: what the links allow each of them;
* ``crews``: starts the workers of one contender on all hosts; ``worker`` is what runs there, and
  ``contenders/`` the code it measures: innet itself, Gloo, Open MPI;
* ``turns``: how the workers are told to run one operation all at once, one method after another;
* ``sampling``: what the links carried, queued and dropped meanwhile;
* ``sweep``: the whole comparison; ``measurement``: its result, as JSON;
* ``table``, ``report``: the result for people.

This package imports none of them by itself: the workers need only a part.
"""
