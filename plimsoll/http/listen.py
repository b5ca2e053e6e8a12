"""Opens listening sockets for the addresses in flags."""

import errno
import socket

from plimsoll.http.addresses import Address


class ListenError(Exception):
    """Listening on an address failed; the message is for the operator."""


def bind(address: Address) -> socket.socket:
    try:
        if not address.host:
            return _bind_everywhere(address.port)
        family, _, _, _, where = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(where, family=family)
    except OSError as error:
        raise ListenError(f"cannot listen on {address}: {error.strerror or error}") from error


def _bind_everywhere(port: int) -> socket.socket:
    """Return one socket for IPv4 and IPv6, so that port 0 is one port; IPv4 only if the kernel has no IPv6."""
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError as error:
            if error.errno not in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}:
                raise
    return socket.create_server(("0.0.0.0", port))  # noqa: S104 (the flag has no host)


def bound(address: Address, listener: socket.socket) -> Address:
    return Address(address.host, listener.getsockname()[1])
