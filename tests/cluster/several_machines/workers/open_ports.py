"""Prints the TCP sockets of this namespace that listen, and the UDP sockets without a peer."""

import psutil

for connection in psutil.net_connections("inet"):
    is_tcp = connection.type.name == "SOCK_STREAM"
    is_open = connection.status == psutil.CONN_LISTEN if is_tcp else not connection.raddr
    if is_open and not connection.laddr.ip.startswith("127."):
        print(
            "tcp" if is_tcp else "udp",
            f"{connection.laddr.ip.removeprefix('::ffff:')}:{connection.laddr.port}",
        )
