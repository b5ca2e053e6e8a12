"""Responses of ports: JSON and bodies in pieces, errors as JSON, and routes that features share on kube-scheduler's port."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import NamedTuple

import msgspec

from evaluator.core import protocol
from plimsoll import logs
from plimsoll.html import headers
from plimsoll.http.routes import Route
from plimsoll.http.types import Parts, Refuse, RejectedRequestError, Request, Response
from plimsoll.logs.ratelimited import RateLimitedLogger

log = logs.get(__name__)

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


class RouteGroup(NamedTuple):
    """Routes of one feature on a port that features share, and how it refuses requests to them; None: as the first group."""

    routes: Mapping[str, Route]
    refuse: Refuse | None = None


class ErrorResponder:
    """Builds error responses. The log is rate-limited, so that clients cannot flood it; the metrics count all errors."""

    def __init__(self) -> None:
        self._limited = RateLimitedLogger(log, overflow="debug", rate=1, burst=100)

    def answer(self, verb: str, error: RejectedRequestError, request: Request | None) -> Response:
        """Return the response for a rejected `verb`; `request` is None if its header was incomplete."""
        status = error.status
        write = log.debug if request is None else self._limited.log
        write(f"{verb} refused", status=int(status), error=str(error))
        body = protocol.encode_error(str(error))
        return Response(status, body, "application/json", error.headers)
