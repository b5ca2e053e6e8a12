"""Valid and invalid requests for the extender's port, each with its permitted responses."""

import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tests.fuzz.mutations import mutate

BOOK = frozenset({200, 400, 403, 404, 405, 408, 413, 414, 417, 421, 431, 501, 503, 505})
"""All statuses of these ports; 421 only from the ops port, for a Host that is a name."""
READ = frozenset({200, 400, 413, 503})
"""Statuses for a well-framed request with any body."""
PATHS = (b"/scheduler/filter", b"/scheduler/prioritize")
_OTHERS = (
    b"/",
    b"/scheduler/bind",
    b"/scheduler/filter/",
    b"//scheduler/filter",
    b"/Scheduler/filter",
    b"/%2e%2e/x?a=b",
    b"*",
)
_METHODS = (b"GET", b"PUT", b"DELETE", b"HEAD", b"OPTIONS", b"PATCH", b"post", b"BREW", b"TRACE")
_HEADERS = (
    (b"X-A: b", BOOK), (b"Content-Type: text/plain; charset=\xff", BOOK), (b"Connection: close", BOOK),
    (b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA", BOOK),
    (b"Expect: 100-continue", BOOK), (b"Expect: 200-ok", {417}), (b"X: " + b"y" * 20_000, {431}), (b"A B: c", {400}),
    (b"Transfer-Encoding: gzip", {400, 501}), (b"Content-Length: 1", {400}), (b"Content-Length: -1", {400}),
    (b"Host: twice", {400}), (b"X: a\r\n b", BOOK), (b"X: \0", {400}), (b"Content-Encoding: gzip", BOOK),
)  # fmt: skip
_PAGES = (
    b"/metrics", b"/healthz", b"/readyz", b"/explain", b"/explain/default/demo", b"/explain/default/none", b"/explain/",
    b"/explain/a%2fb/%00%ff", b"/metrics?name[]=plimsoll_decisions_total", b"http://localhost/metrics", b"/",
    b"/nodes?state=all&search=%00&page=-1", b"/policies/default/%e2%80%ae.json", b"/pods?pod=%ff/", b"/rules//", b"/assets/..",
)  # fmt: skip
_FIELDS = (
    b"Accept: application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
    b"Accept: application/openmetrics-text; version=0.0.1", b"Accept: text/plain; version=1.0.0; escaping=values",
    b"Accept-Encoding: gzip;q=0.5, identity", b"Authorization: Basic YTpi", b"Range: bytes=0-9", b"Connection: close",
    b"If-None-Match: *", b"X-Prometheus-Scrape-Timeout-Seconds: 10", b"Content-Length: 0", b"Transfer-Encoding: chunked",
)  # fmt: skip
_SPACES = re.compile(rb"[\0-\x20\x7f-\xff]")
_LINES = re.compile(rb"[\r\n\0]")


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """Bytes to send. `whole`: one request with one response; else any response is valid, and the connection ends."""

    raw: bytes
    allowed: frozenset[int] = BOOK
    whole: bool = True
    head: bool = False
    """Whether it is a HEAD request, whose response has no body."""
    parting: bool = False
    """Whether the connection is likely to end with it."""
    right: bool = False
    """Whether the exact response is known."""


def question(path: bytes) -> HttpRequest:
    """A filter or prioritize request of kube-scheduler about the two nodes."""
    meta = {"name": "web", "namespace": "default", "labels": {"telemetry-policy": "demo"}}
    body = {
        "Pod": {"metadata": meta},
        "Nodes": None,
        "NodeNames": ["node-a", "node-b"],
    }
    return HttpRequest(
        _framed(b"POST", path, json.dumps(body).encode()), frozenset({200}), right=True
    )


ANSWERS = {
    PATHS[0]: {
        "Nodes": None,
        "NodeNames": ["node-b"],
        "FailedNodes": {"node-a": "violating demo: health Equals 1"},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    },
    PATHS[1]: [{"Host": "node-a", "Score": 9}, {"Host": "node-b", "Score": 10}],
}


class RequestGenerator:
    """An endless generator, deterministic by seed."""

    def __init__(self, bodies: Sequence[bytes], rng: random.Random) -> None:
        self._bodies = bodies
        self.rng = rng

    def whole(self) -> HttpRequest:
        """A correctly framed request with any content."""
        rng = self.rng
        body = (
            mutate(rng.choice(self._bodies), rng)
            if rng.random() < 0.9
            else rng.choice(self._bodies)
        )
        kind = rng.random()
        if kind < 0.75:
            return HttpRequest(_framed(b"POST", rng.choice(PATHS), body), READ)
        if kind < 0.85:
            return HttpRequest(_chunked(rng.choice(PATHS), body, rng), READ)
        if kind < 0.90:
            return HttpRequest(_framed(b"POST", rng.choice(_OTHERS), body))
        if kind < 0.95:
            method = rng.choice(_METHODS)
            return HttpRequest(_framed(method, rng.choice(PATHS), body), head=method == b"HEAD")
        header, allowed = rng.choice(_HEADERS)
        raw = _framed(b"POST", rng.choice(PATHS), body, header)
        return HttpRequest(raw, frozenset(allowed), parting=True)

    def broken(self) -> HttpRequest:
        """Bytes like the start of a request, or random ones."""
        rng = self.rng
        if rng.random() < 0.1:
            return HttpRequest(rng.randbytes(rng.randrange(1, 400)), whole=False)
        raw = self.whole().raw
        head, _, body = raw.partition(b"\r\n\r\n")
        if rng.random() < 0.7:
            head = mutate(head, rng)
        raw = head + rng.choice((b"\r\n\r\n",) * 8 + (b"\n\n", b"", b"\r\n")) + body
        return HttpRequest(
            raw[: rng.randrange(len(raw) + 1)] if rng.random() < 0.3 else raw, whole=False
        )

    def page(self) -> HttpRequest:
        """A request for an ops page, with odd paths and headers."""
        rng = self.rng
        path = rng.choice(_PAGES)
        if rng.random() < 0.7:
            path = _SPACES.sub(b"%20", mutate(path, rng))[:8000]
        fields = [rng.choice(_FIELDS) for _ in range(rng.randrange(3))]
        odd = (mutate(field, rng) if rng.random() < 0.7 else field for field in fields)
        headers = (b": ".join(_LINES.sub(b"", field).split(b": ", 1))[:4000] for field in odd)
        method = rng.choice((b"GET",) * 9 + (b"HEAD", b"POST"))
        return HttpRequest(
            b"\r\n".join(
                (b"%s %s HTTP/1.1" % (method, path), b"Host: localhost", *headers, b"", b"")
            ),
            whole=False,
        )


def _framed(method: bytes, path: bytes, body: bytes, *headers: bytes) -> bytes:
    lines = (
        b"%s %s HTTP/1.1" % (method, path),
        b"Host: localhost",
        b"Content-Length: %d" % len(body),
    )
    return b"\r\n".join((*lines, *headers, b"", body))


def _chunked(path: bytes, body: bytes, rng: random.Random) -> bytes:
    size = rng.choice((1 << 16, 1000, 100))
    chunks = (body[at : at + size] for at in range(0, len(body), size))
    spelled = b"".join(b"%x%s\r\n%s\r\n" % (len(c), rng.choice((b"", b";a=b")), c) for c in chunks)
    head = b"POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" % path
    return head + spelled + rng.choice((b"0\r\n\r\n", b"0\r\nX-Trailer: y\r\n\r\n"))
