"""Where a node keeps blocks.

* ``memory``: blocks in memory; ``disk``: in an embedded database;
* ``tiered``: both, one behind the other.
"""
