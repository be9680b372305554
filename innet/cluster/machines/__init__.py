"""Machines of a cluster join its launcher, and exchange byte streams with it.

An agent on each machine holds one ZeroMQ connection (TCP, CURVE) to the launcher. Over it, byte
streams of Unix sockets are relayed in both directions.

* ``listener``: the launcher's end; ``connection``: the agent's; start with these two;
* ``token_file``, ``agent_key``: what a machine needs to join;
* ``admission``: a state machine of the known and the connected machines;
* ``messages``, ``resumption``, ``multiplexer``: state machines of the frames on a connection;
* ``relay``, ``tunnel``: the Unix sockets of a run directory, and all of one machine together.
"""
