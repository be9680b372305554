"""How machines of a cluster join its launcher, and what crosses between them.

An agent on each machine holds one ZeroMQ connection (TCP, CURVE) to the launcher. Over it, byte
streams of Unix sockets are relayed in both directions.

* ``listener``: the launcher's end; ``connection``: the agent's; start with these two;
* ``token_file``, ``agent_key``: what a machine needs to join;
* ``admission``: which machines there are and who is connected, without input and output;
* ``messages``, ``resumption``, ``multiplexer``: what crosses the connection, likewise;
* ``relay``, ``tunnel``: the Unix sockets of a run directory, and all of one machine together.
"""
