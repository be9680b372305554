"""Prints the TCP sockets of this namespace that listen, and the UDP sockets without a peer."""

from psutil import CONN_LISTEN, net_connections

for connection in net_connections("inet"):
    is_tcp = connection.type.name == "SOCK_STREAM"
    is_open = connection.status == CONN_LISTEN if is_tcp else not connection.raddr
    host, port = connection.laddr or ("", 0)
    if is_open and not host.startswith("127."):
        print("tcp" if is_tcp else "udp", f"{host.removeprefix('::ffff:')}:{port}")
