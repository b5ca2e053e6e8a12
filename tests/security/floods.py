"""Clients that send at full speed, as a process: `python floods.py KIND PORT CONNECTIONS [tls|h2|h2=FILE]`.

FILE has a client certificate and its key, for HTTP/2. Refused connections are opened again. Prints a line once each connection has sent something; ends with its stdin.
"""

import contextlib
import itertools
import os
import socket
import ssl
import sys
import threading
import time

from tests.security import rawh2

_PART = 64 << 10
_GATES = (
    b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"a","operation":"CREATE",'
    b'"resource":{"resource":"pods"},"object":{"spec":{"schedulingGates":[%s{}]}}}}'
)
_GATE = b'{"name":"a"},'


def _post(*lines):
    return b"\r\n".join((b"POST /gangs/gate HTTP/1.1", b"Host: x", *lines, b"", b""))


def chunks():
    """An endless body of one-byte chunks."""
    head = _post(b"Transfer-Encoding: chunked")
    return itertools.chain([head], itertools.repeat(b"1\r\n \r\n" * (_PART // 6)))


def fields():
    """Successive requests with 3,000 header fields each."""
    return itertools.repeat(b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"a:b\r\n" * 3_000 + b"\r\n")


def many_fields():
    """Successive requests with 150 header fields each, within the limit of bytes."""
    return itertools.repeat(b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"a:b\r\n" * 150 + b"\r\n")


def trailers():
    """Successive chunked requests with 150 trailers each."""
    return itertools.repeat(
        _post(b"Transfer-Encoding: chunked") + b"0\r\n" + b"a:b\r\n" * 150 + b"\r\n"
    )


def not_found():
    """Successive requests for a path that does not exist; each answer is read."""
    return itertools.repeat(b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n")


def streams():
    """Streams of agents for another node than that of the certificate, 20 at a time; each answer is read."""
    yield rawh2.PREFACE + rawh2.frame(rawh2.SETTINGS, 0, 0)
    report = rawh2.report(node_name="node-0")
    for first in itertools.count(1, 40):
        yield b"".join(
            rawh2.frame(rawh2.HEADERS, rawh2.END_HEADERS, stream, rawh2.call_headers())
            + rawh2.frame(rawh2.DATA, 0, stream, report)
            for stream in range(first, first + 40, 2)
        )


def continuation():
    """A header list of 8 MiB that does not end."""
    yield rawh2.PREFACE + rawh2.frame(rawh2.SETTINGS, 0, 0)
    yield rawh2.frame(rawh2.HEADERS, 0, 1, rawh2.call_headers())
    fields = rawh2.literal("a", "b" * 100) * 150
    for _ in range((8 << 20) // len(fields)):
        yield rawh2.frame(rawh2.CONTINUATION, 0, 1, fields)


def indexed():
    """A header list of 8 MiB that does not end, of fields of one byte: those of HPACK's table."""
    yield rawh2.PREFACE + rawh2.frame(rawh2.SETTINGS, 0, 0)
    yield rawh2.frame(rawh2.HEADERS, 0, 1, rawh2.call_headers() + b"\x40\x01a\x01b")
    for _ in range(8 << 6):
        yield rawh2.frame(rawh2.CONTINUATION, 0, 1, b"\xbe" * (16 << 10))


def large_reviews():
    """Admission reviews full of scheduling gates, over the size limit."""
    return _reviews(8 << 20)


def reviews():
    """As large as the limit allows."""
    return _reviews(4 << 20)


def _reviews(size):
    body = _GATES % (_GATE * ((size - len(_GATES)) // len(_GATE)))
    return itertools.repeat(_post(b"Content-Length: %d" % len(body)) + body)


def connections():
    """Connections that are closed at once; with TLS, after a handshake without a certificate."""
    return ()


def silent():
    """Connections that stay open and send nothing."""
    while True:
        yield b""
        time.sleep(0.05)


KINDS = {
    kind.__name__: kind
    for kind in (
        *(chunks, fields, many_fields, trailers, not_found, streams, continuation, indexed),
        *(large_reviews, reviews, connections, silent),
    )
}
_READ = {not_found, streams}
"""Kinds whose answers are read."""


class _Flood:
    def __init__(self, kind, port, connections, *, tls=""):
        self._parts = KINDS[kind]
        self._port = port
        self._tls = tls
        self._over = threading.Event()
        self._begun = threading.Barrier(connections + 1)
        self._threads = [threading.Thread(target=self._run) for _ in range(connections)]

    def begin(self):
        for thread in self._threads:
            thread.start()
        self._begun.wait()

    def end(self):
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _run(self):
        self._send()
        os.nice(19)  # of this thread: the server must cause the slowdown, not this program
        self._begun.wait()
        while not self._over.is_set():
            self._send(many=True)

    def _send(self, *, many=False):
        with contextlib.suppress(OSError), self._connected() as client:
            for part in itertools.islice(self._parts(), None if many else 1):
                if self._over.is_set():
                    return
                client.sendall(part)
                if self._parts in _READ and not client.recv(_PART):
                    return

    def _connected(self):
        client = socket.create_connection(("127.0.0.1", self._port), timeout=1)
        if not self._tls:
            return client
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if self._tls.startswith("h2"):
            context.set_alpn_protocols(["h2"])
        if file := self._tls.partition("=")[2]:
            context.load_cert_chain(file)
        return context.wrap_socket(client)


if __name__ == "__main__":
    kind, port, connections, *tls = sys.argv[1:]
    flood = _Flood(kind, int(port), int(connections), tls="".join(tls))
    flood.begin()
    sys.stdout.write("every connection has sent something\n")
    sys.stdout.flush()
    sys.stdin.read()
    flood.end()
