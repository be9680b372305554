"""Replays of requests to language models, whose workers share their prompts' blocks.

* ``program`` is the job: what its workers and pools do is :mod:`innet.lab.replay` and
  :mod:`innet.kv.pool`, as in real processes;
* ``member`` is one host's part in the pool, which a crash ends;
* ``switch_hits`` is what the switches have answered.
"""
