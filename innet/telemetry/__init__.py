"""Telemetry of a run: what its processes report over MQTT, in logs and in traces.

* ``topics``, ``messages``: the topic tree and the payloads (docs/telemetry.md);
* ``source``, ``publisher``: what a process publishes, such as ``innet/node/node_telemetry.py``, and
  its connection to the broker;
* ``events``: any module reports events;
* ``commands``: signed commands to nodes;
* ``broker_socket``, ``embedded_broker``, ``relay``: the way to a broker;
* ``mqtt_broker``, ``mqtt_session``, ``mqtt_packets``: the embedded broker;
* ``feed``: the state of a run, from its topics;
* ``logs``, ``trace``: structured logs, and timelines of jobs.
"""
