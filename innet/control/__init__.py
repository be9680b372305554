"""Control: each node answers on a ZeroMQ socket, and the controller of a run tells nodes what to do.

``protocol`` says what a request and an answer look like, ``server`` and ``client`` carry them,
``agent`` answers for a node, ``controller`` for a run.
"""
