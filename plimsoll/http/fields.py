"""Parses field lines of headers and trailers (RFC 9112 section 5) with llhttp."""

from http import HTTPStatus

from httptools import (
    HttpParserCallbackError,
    HttpParserError,
    HttpParserUpgrade,
    HttpRequestParser,
)

from plimsoll.http.types import RejectedRequestError

MOST_FIELDS = 100
"""Maximum per section, unless a port sets its own. kube-scheduler, Prometheus and kubelets send fewer than ten."""

# After the header of a CONNECT, llhttp expects another protocol: it stops there and returns the offset.
_CONNECT = b"CONNECT x:1 HTTP/1.1\r\n"


class FieldLines:
    """Parses field lines up to the empty line.

    `values`: by name in lower case; repeated fields are joined by commas. `repeated`: the values of these fields one by one.
    """

    def __init__(self, most: int = MOST_FIELDS) -> None:
        fields = _Fields(most)
        self.values, self.repeated = fields.values, fields.repeated
        self._fields = fields
        self._parser = HttpRequestParser(fields)
        self._parser.feed_data(_CONNECT)

    def feed(self, data: bytes) -> int | None:
        """Parse data. Returns the offset after the empty line; None if more is needed. Raises RejectedRequestError."""
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as end:
            return int(end.args[0])
        except HttpParserCallbackError as error:
            if not self._fields.too_many:
                raise
            raise RejectedRequestError(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                f"more than {self._fields.most} header fields",
            ) from error
        except HttpParserError as error:
            raise RejectedRequestError(HTTPStatus.BAD_REQUEST, f"not HTTP/1.1: {error}") from error
        return None


class _Fields:
    """Callbacks of llhttp, in an object of their own to avoid a reference cycle with the parser."""

    def __init__(self, most: int) -> None:
        self.values: dict[str, str] = {}
        self.repeated: dict[str, list[str]] = {}
        self.most = most
        self._count = 0

    @property
    def too_many(self) -> bool:
        return self._count > self.most

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count += 1
        if self.too_many:
            raise ValueError  # stops the parser, which raises HttpParserCallbackError
        key, text = name.decode("ascii").lower(), value.decode("latin-1").rstrip(" \t")
        if (known := self.values.get(key)) is None:
            self.values[key] = text
        else:
            self.repeated.setdefault(key, [known]).append(text)
            self.values[key] = f"{known}, {text}"
