"""Metrics of a run for Prometheus.

* ``families``: which metrics there are, and where each is in a node's answer;
* ``collector``: asks the nodes at each scrape;
* ``endpoint``: serves them over HTTP.
"""

from innet.cluster.metrics.endpoint import MetricsEndpoint

__all__ = ["MetricsEndpoint"]
