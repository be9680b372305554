"""The controller of a run: keeps its jobs, groups and pools, and configures nodes for them.

``controller`` is a state machine without input and output; its parts are ``jobs``, ``groups``,
``pools``, ``placements``, ``announcements`` and ``liveness``, its vocabulary is in ``actions``.
``driver`` runs it on an event loop, in the process of ``__main__``; ``remote`` is the launcher's
view of it. Start with :mod:`innet.cluster.control.controller`.
"""
