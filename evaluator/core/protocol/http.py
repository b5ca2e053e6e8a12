"""HTTP of kube-scheduler's port: groups of routes, and errors as JSON that kube-scheduler shows, with a rate-limited log line."""

from collections.abc import Mapping
from typing import NamedTuple

from evaluator.core.protocol import codec
from plimsoll import logs
from plimsoll.http.routes import Route
from plimsoll.http.types import Refuse, RejectedRequestError, Request, Response
from plimsoll.logs.ratelimited import RateLimitedLogger

log = logs.get(__name__)


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
        body = codec.encode_error(str(error))
        return Response(status, body, "application/json", error.headers)
