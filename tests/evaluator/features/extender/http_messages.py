"""HTTP/1.1 requests to the extender as bytes, and checks of its responses."""

import datetime
import json
from email.utils import parsedate_to_datetime

NAMES = ("node-a", "node-b", "node-c")
QUESTION = json.dumps(
    {
        "Pod": {
            "metadata": {
                "name": "web",
                "namespace": "ns",
                "labels": {"telemetry-policy": "demo-policy"},
            }
        },
        "NodeNames": NAMES,
    }
).encode()
PASSING = ["node-a", "node-c"]
FILTER = b"/scheduler/filter"
SIZE = b"Content-Length: %d" % len(QUESTION)
CHUNKED = b"Transfer-Encoding: chunked"
TRAP_BODY = QUESTION.replace(b'"web"', b'"smuggled"')


def raw(*lines, start=b"POST /scheduler/filter HTTP/1.1", host=b"Host: x", body=b""):
    """A request as bytes."""
    return b"\r\n".join([line for line in (start, host, *lines) if line] + [b"", body])


def sized(body=QUESTION, *lines, **kwargs):
    return raw(b"Content-Length: %d" % len(body), *lines, body=body, **kwargs)


def chunks(*parts, end=b"0\r\n\r\n"):
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + end


TRAP = sized(TRAP_BODY, start=b"POST /scheduler/prioritize HTTP/1.1")
"""A request that must never be recognized within, or after, an invalid one."""


def is_the_answer(reply):
    assert reply.status == 200, reply
    assert json.loads(reply.body)["NodeNames"] == PASSING
    is_dressed(reply)


def is_refusal(reply, *statuses):
    """A JSON error that kube-scheduler shows, without internals."""
    assert reply.status in statuses, reply
    ((key, sentence),) = json.loads(reply.body).items()
    assert key == "Error"
    assert 0 < len(sentence) < 400
    for inside in ("Traceback", "h11", "llhttp", "httptools", "bytearray", ".py", "0x", "python"):
        assert inside not in sentence
    is_dressed(reply)


def is_dressed(reply):
    """Every response has these headers, and none that identifies the software."""
    assert reply.headers["content-type"].startswith("application/json")
    assert int(reply.headers["content-length"]) == len(reply.body)
    said = parsedate_to_datetime(reply.headers["date"])
    assert reply.headers["date"].endswith(" GMT")
    assert abs(said - datetime.datetime.now(datetime.UTC)) < datetime.timedelta(minutes=5)
    assert reply.headers.keys() <= {
        *("content-type", "content-length", "date", "connection", "allow", "retry-after"),
    }


GOOD = {
    "plain": sized(),
    "in chunks": raw(CHUNKED, body=chunks(QUESTION)),
    "in chunks of one byte": raw(
        CHUNKED, body=chunks(*(QUESTION[i : i + 1] for i in range(50)), QUESTION[50:])
    ),
    "chunked by another spelling": raw(b"transfer-encoding:CHUNKED", body=chunks(QUESTION)),
    "chunks with extensions": raw(
        CHUNKED, body=b'%X;a=b;c="d e"\r\n%s\r\n0;last\r\n\r\n' % (len(QUESTION), QUESTION)
    ),
    "a chunk size with zeros before it": raw(
        CHUNKED, body=b"00000%x\r\n%s\r\n00\r\n\r\n" % (len(QUESTION), QUESTION)
    ),
    "trailers": raw(
        b"Trailer: X-Sum", CHUNKED, body=chunks(QUESTION, end=b"0\r\nX-Sum: 1\r\n\r\n")
    ),
    "a trailer that is framing": raw(
        CHUNKED, body=chunks(QUESTION, end=b"0\r\nContent-Length: 999\r\n\r\n")
    ),
    "an absolute target": sized(start=b"POST http://x/scheduler/filter HTTP/1.1"),
    "a query": sized(start=b"POST /scheduler/filter?timeout=5s&x HTTP/1.1"),
    "empty lines before it": b"\r\n\r\n" + sized(),
    "an empty Host": sized(host=b"Host:"),
    "a Host with a port": sized(host=b"Host: evaluator.plimsoll.svc:9001"),
    "a Host of IPv6": sized(host=b"Host: [::1]:9001"),
    "a later minor version": sized(start=b"POST /scheduler/filter HTTP/1.9"),
    "names in any case": raw(b"cONTENT-lENGTH:%d" % len(QUESTION), host=b"hOsT:x", body=QUESTION),
    "spaces around values": raw(b"Content-Length: \t %d \t" % len(QUESTION), body=QUESTION),
    "a length with zeros before it": raw(b"Content-Length: 000%d" % len(QUESTION), body=QUESTION),
    "bytes beyond ASCII": sized(QUESTION, b"X-Name: \xc3\xa9\xff"),
    "an empty value": sized(QUESTION, b"X-Empty:"),
    "as many fields as there may be": sized(QUESTION, *(b"X-%d: y" % i for i in range(98))),
    "h2c offered": sized(
        QUESTION,
        *(b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQ"),
    ),
    "a web socket offered": sized(QUESTION, b"Connection: Upgrade", b"Upgrade: websocket"),
    "TLS offered": sized(QUESTION, b"Connection: Upgrade", b"Upgrade: TLS/1.2, HTTP/1.1"),
    "another content type": sized(QUESTION, b"Content-Type: text/plain; charset=utf-16"),
    "compression offered": sized(QUESTION, b"Accept-Encoding: gzip, br", b"TE: trailers, gzip"),
    "nothing acceptable": sized(QUESTION, b"Accept: image/png;q=1, */*;q=0"),
    "a range": sized(QUESTION, b"Range: bytes=0-0", b"If-None-Match: *"),
    "a proxy's fields": sized(QUESTION, b"Via: 1.1 p", b"Forwarded: for=_x", b"X-Http-Method: GET"),
    "kept alive in so many words": sized(QUESTION, b"Connection: keep-alive", b"Keep-Alive: 300"),
    "nothing of a name that looks like framing": sized(
        QUESTION, b"Content_Length: 3", b"X-Transfer-Encoding: chunked"
    ),
}
