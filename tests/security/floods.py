"""Clients that send as fast as they can, in a process of their own: `python floods.py KIND PORT CONNECTIONS SECONDS [tls]`.

Each connection is opened again as soon as it is refused. Prints how often that was.
"""

import contextlib
import itertools
import socket
import ssl
import sys
import threading
import time

_WIRE = 64 << 10
_GATES = (
    b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"a","operation":"CREATE",'
    b'"resource":{"resource":"pods"},"object":{"spec":{"schedulingGates":[%s{}]}}}}'
)


def _post(path, *lines):
    return b"\r\n".join((b"POST %s HTTP/1.1" % path, b"Host: x", *lines, b"", b""))


def chunks():
    """A body of one byte a chunk, without end."""
    head = _post(b"/gangs/gate", b"Transfer-Encoding: chunked")
    return itertools.chain([head], itertools.repeat(b"1\r\n \r\n" * (_WIRE // 6)))


def fields():
    """Requests with 3,000 header fields each, one after the other."""
    return itertools.repeat(b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"a:b\r\n" * 3_000 + b"\r\n")


def reviews(size=(8 << 20) - 300):
    """Admission reviews that are full of scheduling gates. As large as the port takes them."""
    body = _GATES % (b'{"name":"a"},' * (size // 13))
    return itertools.repeat(_post(b"/gangs/gate", b"Content-Length: %d" % len(body)) + body)


def small_reviews():
    """The same, below the limit of a body."""
    return reviews((4 << 20) - 300)


KINDS = {kind.__name__: kind for kind in (chunks, fields, reviews, small_reviews)}


def flood(kind, port, connections, seconds, *, tls):
    """Send from so many threads for so long; how many connections there were."""
    until = time.monotonic() + seconds
    opened = itertools.count()
    threads = [
        threading.Thread(target=_send, args=(kind, port, until, opened, tls))
        for _ in range(connections)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return next(opened)


def _send(kind, port, until, opened, tls):
    while time.monotonic() < until:
        next(opened)
        with contextlib.suppress(OSError), _connected(port, tls) as client:
            for part in kind():
                client.sendall(part)
                if time.monotonic() > until:
                    return


def _connected(port, tls):
    client = socket.create_connection(("127.0.0.1", port), timeout=2)
    if not tls:
        return client
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(client)


if __name__ == "__main__":
    kind, port, connections, seconds, *tls = sys.argv[1:]
    count = flood(KINDS[kind], int(port), int(connections), float(seconds), tls=bool(tls))
    sys.stdout.write(f"{count}\n")
