"""Replays of requests to language models, whose workers share their prompts' blocks.

* ``program`` is the job; ``worker`` serves requests on one host;
* ``homes`` keep blocks for others, ``transfers`` moves blocks as signed objects;
* ``memory`` divides the cluster's memory; ``switch_hits`` is what its switches have answered.
"""
