"""Control sockets: requests to a node or controller, their messages, and who answers them.

Used by nodes, workers and the controller. Start with :mod:`innet.node.control.protocol`.
"""
