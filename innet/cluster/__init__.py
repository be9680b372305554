"""Launches and supervises networks: their processes, links, controller and jobs.

May import worker, node and what is below them. Start with :class:`innet.cluster.launch.Session`:

* ``launch``: sessions, jobs, and the processes of a run;
* ``emulation``: the processes and links of an emulated network, in each mode;
* ``control``: the controller, a state machine with an asyncio driver;
* ``machines``: how machines of a cluster join the launcher, and what crosses between them;
* ``metrics``: the run's metrics for Prometheus, served by the launcher;
* ``run_status``, ``run_broker``, ``session_client``: a run as other programs of its user see it;
* ``requests``: requests and replies in an event loop.
"""
