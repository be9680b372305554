"""Control: each node answers on a Unix socket, and a run's controller tells nodes what to do.

``protocol`` says what a request and an answer look like, ``server`` and ``client`` carry them,
``agent`` answers for a node, ``controller`` for a run: it keeps the ``groups`` and the ``pools`` of
blocks, has ``group_plans`` made and rules installed (``placements``), and speaks to nodes through a
``messenger``; ``attendance`` watches the workers' processes.
"""
