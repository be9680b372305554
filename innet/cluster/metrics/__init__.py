"""Metrics of a run for Prometheus.

* ``collector``: which metrics there are; it reads the nodes' status at each scrape;
* ``endpoint``: serves them over HTTP.
"""

from innet.cluster.metrics.endpoint import MetricsEndpoint

__all__ = ["MetricsEndpoint"]
