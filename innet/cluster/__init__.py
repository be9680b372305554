"""Launches and supervises networks: their processes, links, controller and jobs.

May import worker, node and what is below them. Start with :class:`innet.cluster.launch.Session`:

* ``launch``: sessions, jobs, switches and what the launcher reports of them;
* ``emulation``: the processes and links of an emulated network, in each mode;
* ``control``: the controller, which places reductions and supervises ranks;
* ``metrics``: the run's metrics for Prometheus, served by the launcher.
"""
