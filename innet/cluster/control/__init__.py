"""The controller of a run, which tells nodes and workers what to do.

``controller`` answers for the run. It keeps the ``groups`` and the ``pools`` of blocks, has
``group_plans`` made and rules installed (``placements``). ``attendance`` watches the workers'
processes, ``silent_workers`` those that do not answer. Messages and sockets are in
:mod:`innet.node.control`, a node's side in :mod:`innet.node.agent`.
"""
