"""Health of a run: published over MQTT, and commands to its nodes.

* ``topics``, ``messages``: the topic tree and what is published there (docs/telemetry.md);
* ``service_source``: what processes that are no nodes publish; each kind of process has its part
  of telemetry in its own package (``innet/node/node_telemetry.py`` and others);
* ``publisher``: the connection of either to the broker, which may come and go;
* ``events``: where anybody says what happens; ``counter_events``: what only counters tell;
* ``commands``: signed commands, and what keeps others out;
* ``door``, ``broker_thread``, ``embedded_broker``, ``relay``: the broker, and the way to it;
* ``mqtt_broker``, ``mqtt_session``, ``mqtt_packets``, ``subscriptions``,
  ``retained_messages``: the embedded broker;
* ``feed``: what a viewer knows of a run from its topics;
* ``logs``, ``trace``: structured logs, and timelines of jobs.
"""
