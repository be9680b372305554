"""The machines of a network on a Ray cluster: their placement on nodes, and their agents.

Ray places, starts, restarts and ends them at the request of this package, for the launcher
(:mod:`.launcher`). Only :mod:`.driver` imports Ray, in a process of its own.
"""
