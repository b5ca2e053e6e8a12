"""Sends requests over a few connections at full speed and accepts only permitted responses."""

import collections
import contextlib
import json
import re
import socket
import ssl
from dataclasses import dataclass

import msgspec

from tests.fuzz.http_requests import ANSWERS, BOOK, PATHS, HttpRequest, RequestGenerator, question
from tests.patience import PATIENCE

_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) [ -~]+")
_PLAIN_REFUSED = re.compile(rb"HTTP/1\.0 400 Bad Request\r\n(?:[ -~]+\r\n)+\r\n[ -~]+\n")
_ALERT = b"\x15"
_JSON = b"application/json"
_CONNECTIONS = 8
_AT_ONCE = 64 << 10
"""Bytes sent on one connection before its responses are read: what kernels buffer, both ways."""


class _Filter(msgspec.Struct, forbid_unknown_fields=True):
    Nodes: msgspec.Raw
    NodeNames: list[str]
    FailedNodes: dict[str, str]
    FailedAndUnresolvableNodes: dict[str, str]
    Error: str


class _Score(msgspec.Struct, forbid_unknown_fields=True):
    Host: str
    Score: int


class _Error(msgspec.Struct, forbid_unknown_fields=True):
    Error: str


_decode = msgspec.json.Decoder(_Filter | list[_Score]).decode
_decode_error = msgspec.json.Decoder(_Error).decode


@dataclass(frozen=True, slots=True)
class Answer:
    """One response; `last` if the connection ends with it."""

    status: int
    body: bytes
    last: bool


class ClosedError(Exception):
    """The connection ended; `begun`: within a response."""

    def __init__(self, begun: bool) -> None:
        super().__init__(f"closed {'within' if begun else 'before'} an answer")
        self.begun = begun


class Connection:
    """One connection with its unanswered requests."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None, kind: bytes = _JSON) -> None:
        raw = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self._socket = tls.wrap_socket(raw, server_hostname="127.0.0.1") if tls else raw
        self._buffer = bytearray()
        self._kind = kind
        self.open: list[HttpRequest] = []

    def send(self, *generator: HttpRequest) -> None:
        self.open += generator
        # A server that rejected one request may close before all have been sent.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError, ssl.SSLError):
            self._socket.sendall(b"".join(sent_request.raw for sent_request in generator))

    def end(self) -> None:
        """Close the sending side."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()

    def answer(self, *, bodiless: bool = False) -> Answer:
        """The next response other than 100 Continue. Raises ClosedError."""
        while True:
            while (end := self._buffer.find(b"\r\n\r\n")) < 0:
                self._receive()
            first, *lines = bytes(self._buffer[:end]).split(b"\r\n")
            status = _STATUS.fullmatch(first)
            assert status, first
            del self._buffer[: end + 4]
            if status[1] != b"100":
                break
        headers = dict(line.lower().split(b": ", 1) for line in lines)
        assert headers[b"content-type"].startswith(self._kind), headers
        size = 0 if bodiless else int(headers[b"content-length"])
        while len(self._buffer) < size:
            self._receive(begun=True)
        body = bytes(self._buffer[:size])
        del self._buffer[:size]
        return Answer(int(status[1]), body, headers.get(b"connection") == b"close")

    def rest(self) -> bytes:
        """All bytes until the server closes the connection."""
        with contextlib.suppress(ClosedError):
            while True:
                self._receive()
        return bytes(self._buffer)

    def _receive(self, *, begun: bool = False) -> None:
        try:
            data = self._socket.recv(1 << 16)
        except (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError):
            data = b""
        if not data:
            raise ClosedError(begun or bool(self._buffer))
        self._buffer += data


class Sender:
    """`counted`: responses by status, and `closed` for connections that ended without a response."""

    def __init__(self, port: int, generator: RequestGenerator, tls: ssl.SSLContext | None) -> None:
        self.counted: collections.Counter[int | str] = collections.Counter()
        self._port = port
        self._shots = generator
        self._tls = tls
        self._rng = generator.rng
        self._open: list[Connection] = []

    def fire(self, count: int) -> None:
        """Send this many requests; on return each has a response or a closed connection."""
        fired = 0
        while len(self._open) < _CONNECTIONS:
            self._open.append(Connection(self._port, self._tls))
        while fired < count:
            # Responses are read when it is this connection's turn again, so the sender does not wait.
            connection = self._open.pop(0)
            self._take(connection)
            batch = self._batch()
            connection.send(*batch)
            self._open.append(connection)
            fired += len(batch)
            if self._rng.random() < 0.3:
                self._spoil()
                fired += 1
        for connection in self._open:
            self._take(connection)

    def close(self) -> None:
        for connection in self._open:
            connection.close()
        self._open.clear()

    def _batch(self) -> list[HttpRequest]:
        """Pipelined requests with a valid one first; one that ends the connection comes last."""
        batch = [question(self._rng.choice(PATHS))]
        size, most = 0, self._rng.choice((1, 2, 8, 40))
        while len(batch) <= most and size < _AT_ONCE:
            batch.append(self._shots.whole())
            size += len(batch[-1].raw)
            if batch[-1].parting:
                break
        return batch

    def _take(self, connection: Connection) -> None:
        """Read the responses to all open requests of a connection; replace it if it ends."""
        while connection.open:
            sent_request = connection.open.pop(0)
            answer = connection.answer(bodiless=sent_request.head)
            self._judge(sent_request, answer)
            if answer.last:
                self._renew(connection)

    def _renew(self, connection: Connection) -> None:
        self.counted["unanswered"] += len(connection.open)
        connection.close()
        connection.__init__(self._port, self._tls)  # type: ignore[misc]  # the same place in the queue

    def _judge(self, sent_request: HttpRequest, answer: Answer) -> None:
        self.counted[answer.status] += 1
        assert answer.status in sent_request.allowed, (answer, sent_request.raw[:2000])
        if sent_request.head:
            return
        if answer.status != 200:
            assert _decode_error(answer.body).Error, (answer, sent_request.raw[:2000])
            return
        found = _decode(answer.body)
        if isinstance(found, list):
            assert all(0 <= score.Score <= 10 for score in found), answer
        if sent_request.right:
            path = sent_request.raw.split(b" ", 2)[1]
            assert json.loads(answer.body) == ANSWERS[path], answer

    def _spoil(self) -> None:
        """Send malformed bytes, or any plain bytes to a TLS port, on a new connection."""
        if self._tls:
            self._try_plain(self._shots.broken())
        else:
            self.try_alone(self._shots.broken(), Connection(self._port))

    def _try_plain(self, sent_request: HttpRequest) -> None:
        """Send plain bytes to the TLS port: the response is a 400, or the connection is closed."""
        connection = Connection(self._port)
        try:
            connection.send(sent_request)
            connection.end()
            told = connection.rest()
        finally:
            connection.close()
        # No other byte of this port is printable: a TLS alert begins with 0x15.
        assert told[:1] in {b"", _ALERT} or _PLAIN_REFUSED.fullmatch(told), (
            told,
            sent_request.raw[:2000],
        )
        self.counted[400 if told[:1] == b"H" else "closed"] += 1

    def try_alone(self, sent_request: HttpRequest, connection: Connection) -> None:
        """Send what may be no request at all, on a new connection."""
        try:
            connection.send(sent_request)
            connection.end()
            while True:
                answer = connection.answer(bodiless=sent_request.raw.startswith(b"HEAD "))
                self.counted[answer.status] += 1
                assert answer.status in BOOK, (answer, sent_request.raw[:2000])
        except ClosedError as closed:
            if closed.begun and b"HEAD" not in sent_request.raw:
                raise AssertionError(sent_request.raw[:2000]) from closed
            self.counted["closed"] += 1
        finally:
            connection.close()
