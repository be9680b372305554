"""The machines of a network on a Ray cluster: which nodes they are, and the agents on them.

Ray places, starts, restarts and ends them; this package asks it to, for the launcher
(:mod:`.launcher`). Only :mod:`.driver` imports Ray, in a process of its own.
"""
