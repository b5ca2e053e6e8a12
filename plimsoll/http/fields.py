"""Field lines of a header or a trailer section (RFC 9112 section 5), read by llhttp."""

from http import HTTPStatus

from httptools import (
    HttpParserCallbackError,
    HttpParserError,
    HttpParserUpgrade,
    HttpRequestParser,
)

from plimsoll.http.types import RejectedRequestError

MOST_FIELDS = 100
"""In one section. kube-scheduler, Prometheus and kubelets send fewer than ten."""

# llhttp takes what follows the header of a CONNECT for another protocol: it stops there and returns the offset.
_CONNECT = b"CONNECT x:1 HTTP/1.1\r\n"


class FieldLines:
    """Reads field lines up to the empty line that ends them.

    `values` has the names in lower case; the values of one name are joined by commas.
    """

    def __init__(self) -> None:
        fields = _Fields()
        self.values = fields.values
        self._parser = HttpRequestParser(fields)
        self._parser.feed_data(_CONNECT)

    def feed(self, data: bytes) -> int | None:
        """The offset in `data` of what follows the empty line; None while more has to come. Raises RefusedError."""
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as end:
            return int(end.args[0])
        except HttpParserCallbackError as error:
            if isinstance(refused := error.__context__, RejectedRequestError):
                raise refused from None
            raise
        except HttpParserError as error:
            raise RejectedRequestError(HTTPStatus.BAD_REQUEST, f"not HTTP/1.1: {error}") from error
        return None


class _Fields:
    """What llhttp calls. An object of its own, so that reader and parser are no reference cycle."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self._count = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count += 1
        if self._count > MOST_FIELDS:
            raise RejectedRequestError(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"more than {MOST_FIELDS} header fields"
            )
        key, text = name.decode("ascii").lower(), value.decode("latin-1").rstrip(" \t")
        self.values[key] = f"{self.values[key]}, {text}" if key in self.values else text
