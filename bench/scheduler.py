"""kube-scheduler's side of the extender: requests, HTTP client, and checks of responses.

The client is a plain TLS socket, to keep its own time small.
"""

import gzip
import json
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import msgspec
from msgspec import Raw

from bench import cluster

_RECORDED = (
    Path(__file__).parents[1] / "tests/evaluator/features/extender/requests/v1.36-names-3.json"
)
_GO_BUFFER = 4096  # bytes of the first write of Go's client: the headers and the start of the body
_PATIENCE = 60.0


class WrongAnswerError(Exception):
    """A response differs from the expected one; the text says how."""


@dataclass(frozen=True, slots=True)
class Question:
    """A request body and its nodes."""

    body: bytes
    names: Sequence[str]
    nodes: Sequence[bytes] | None = None


def question(names: Sequence[str], nodes: Sequence[bytes] | None = None) -> Question:
    """Return ExtenderArgs with node names or whole nodes, and a pod recorded from a real scheduler."""
    pod = json.loads(_RECORDED.read_bytes())["Pod"]
    pod["metadata"]["namespace"] = cluster.NAMESPACE
    pod["metadata"]["labels"]["telemetry-policy"] = cluster.POD_POLICY
    encode = msgspec.json.encode
    if nodes is None:
        return Question(encode({"Pod": pod, "Nodes": None, "NodeNames": names}), names)
    listed = {"metadata": {}, "items": [Raw(node) for node in nodes]}
    return Question(encode({"Pod": pod, "Nodes": listed, "NodeNames": None}), names, nodes)


@dataclass(frozen=True, slots=True)
class Reply:
    """A response, and the seconds from the first byte sent to the last one received. The next request overwrites `body`."""

    status: int
    body: memoryview | bytes
    seconds: float


class Connection:
    """One keep-alive connection, like kube-scheduler's."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        plain = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = context.wrap_socket(plain, server_hostname="127.0.0.1")
        if self._socket.selected_alpn_protocol() == "h2":
            raise ValueError("the server selected HTTP/2, which this client does not support")
        self._host = f"127.0.0.1:{port}"
        self._buffer = bytearray(1 << 16)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._socket.close()

    def post(self, verb: str, body: bytes, prefix: str = "/scheduler") -> Reply:
        """Send `filter` or `prioritize`. Raises OSError, and ValueError for a malformed response."""
        head = (
            f"POST {prefix}/{verb} HTTP/1.1\r\nHost: {self._host}\r\n"
            f"User-Agent: Go-http-client/1.1\r\nContent-Length: {len(body)}\r\n"
            "Content-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
        ).encode()
        first = _GO_BUFFER - len(head)
        rest = memoryview(body)[first:]
        begin = time.perf_counter()
        self._socket.sendall(head + body[:first])
        if rest:
            self._socket.sendall(rest)
        headers, start, end = self._receive()
        seconds = time.perf_counter() - begin
        content: memoryview | bytes = memoryview(self._buffer)[start:end]
        if headers.get("content-encoding") == "gzip":
            content = gzip.decompress(content)
        return Reply(int(headers["status"]), content, seconds)

    def _receive(self) -> tuple[Mapping[str, str], int, int]:
        """Read the headers; return them and the position of the body in the buffer."""
        filled = 0
        while (start := self._buffer.find(b"\r\n\r\n", 0, filled) + 4) < 4:
            filled += self._more(filled)
        headers = _headers(bytes(self._buffer[: start - 4]))
        if "content-length" not in headers:
            raise ValueError(f"an answer without Content-Length: {headers}")
        end = start + int(headers["content-length"])
        if end > len(self._buffer):
            # A new buffer: the old one may still be in use.
            self._buffer = self._buffer[:filled] + bytearray(end - filled)
        while filled < end:
            filled += self._more(filled)
        return headers, start, end

    def _more(self, filled: int) -> int:
        with memoryview(self._buffer) as view:
            count = self._socket.recv_into(view[filled:])
        if not count:
            raise ConnectionError(f"the server closed the connection after {filled} bytes")
        return count


def _headers(head: bytes) -> Mapping[str, str]:
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    found = {name.lower(): value.strip() for name, _, value in pairs}
    return found | {"status": first.split()[1]}


class _NodeList(msgspec.Struct):
    items: list[Raw] | None = None


class _FilterResult(msgspec.Struct):
    Nodes: _NodeList | None = None
    NodeNames: list[str] | None = None
    FailedNodes: dict[str, str] = msgspec.field(default_factory=dict)
    Error: str = ""


class _HostPriority(msgspec.Struct):
    Host: str
    Score: int


_decode_filter = msgspec.json.Decoder(_FilterResult).decode
_decode_priorities = msgspec.json.Decoder(list[_HostPriority]).decode


@dataclass
class Truth:
    """The expected response to one request. A response equal to a verified one is not decoded again.

    `uncertain`: nodes whose result is unknown, since their readings are changing.
    """

    question: Question
    failing: frozenset[str]
    scores: Mapping[str, int] | None
    """None: any score, since readings are changing."""
    uncertain: frozenset[str] = frozenset()
    verbatim: bool = True
    """Whether whole nodes must be returned byte for byte."""
    _right: dict[str, bytes] = field(default_factory=dict)

    def becomes(self, failing: frozenset[str]) -> None:
        """Expect these nodes to fail; until `holds`, the previous result is accepted too."""
        self.uncertain |= self.failing ^ failing
        self.failing = failing
        self._right.clear()

    def unknown(self) -> None:
        """Accept any result: any node may fail and have any score."""
        self.uncertain, self.scores = frozenset(self.question.names), None

    def holds(self) -> None:
        """Accept only the new result from now on."""
        if self.scores is not None:
            self.uncertain = frozenset()
        self._right.clear()

    def check(self, verb: str, reply: Reply) -> None:
        """Raise WrongAnswerError if a response is not as expected."""
        if reply.status != 200:
            raise WrongAnswerError(f"{verb}: status {reply.status}: {bytes(reply.body[:300])!r}")
        if reply.body == self._right.get(verb):
            return
        if verb == "filter":
            self._check_filter(_decode_filter(reply.body))
        else:
            self._check_priorities(_decode_priorities(reply.body))
        self._right[verb] = bytes(reply.body)

    def _check_filter(self, result: _FilterResult) -> None:
        asked = self.question
        failed = frozenset(result.FailedNodes)
        if result.Error or (failed ^ self.failing.intersection(asked.names)) - self.uncertain:
            wanted = len(self.failing.intersection(asked.names))
            raise WrongAnswerError(
                f"filter: {len(failed)} nodes fail instead of {wanted} {result.Error}"
            )
        if asked.nodes is None:
            passing = [name for name in asked.names if name not in failed]
            if sorted(result.NodeNames or ()) != sorted(passing):
                raise WrongAnswerError(f"filter: {len(result.NodeNames or ())} names pass")
            return
        pairs = zip(asked.names, asked.nodes, strict=True)
        whole = [node for name, node in pairs if name not in failed]
        items = [bytes(item) for item in (result.Nodes.items if result.Nodes else None) or ()]
        if not self.verbatim:
            items, whole = ([msgspec.json.decode(one) for one in many] for many in (items, whole))
        if items != whole:
            raise WrongAnswerError(f"filter: {len(items)} whole nodes, or other ones than came")

    def _check_priorities(self, given: Sequence[_HostPriority]) -> None:
        found = {one.Host: one.Score for one in given}
        wrong = (
            {host for host, number in found.items() if not 0 <= number <= 10}
            if self.scores is None
            else {host for host, number in found.items() if self.scores[host] != number}
        )
        if len(given) != len(found) or found.keys() != set(self.question.names) or wrong:
            raise WrongAnswerError(f"prioritize: {len(given)} scores, {len(wrong)} of them wrong")
