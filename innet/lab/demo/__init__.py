"""The demonstration: one network is trained over eight emulated hosts, once per algorithm.

It needs nothing but the dependencies of the core. Start with
:func:`innet.lab.demo.demonstration.demonstrate`.

* ``digits``: images that a seed determines, and the perceptron that learns them;
* ``training``: a rank's process, and the record of a training;
* ``demonstration``: launches the network and the ranks; ``report`` shows the comparison.
"""
