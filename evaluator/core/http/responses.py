"""Responses of the operations port: errors as JSON, and bodies in pieces."""

from collections.abc import Sequence
from http import HTTPStatus

import msgspec

from plimsoll.html import headers
from plimsoll.http.types import Parts, Response

JSON = "application/json"


def parts(pieces: Sequence[bytes]) -> Parts:
    """Return the pieces as one body; joining megabytes would take milliseconds."""
    return Parts(sum(map(len, pieces)), pieces)


def error(sentence: str, status: HTTPStatus = HTTPStatus.NOT_FOUND) -> Response:
    """Return an error as JSON, as a metav1.Status too: kubectl then prints the sentence, through the service proxy as well."""
    fields = {
        "error": sentence,
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": sentence,
        "code": int(status),
    }
    body = msgspec.json.format(msgspec.json.encode(fields), indent=2) + b"\n"
    return Response(status, parts([body]), JSON, headers.UNCACHED)
