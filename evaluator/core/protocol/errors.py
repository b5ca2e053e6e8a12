"""Error responses on the scheduler's port: JSON that kube-scheduler shows, and a rate-limited log line."""

from evaluator.core.protocol import codec
from plimsoll import logs
from plimsoll.http.types import RejectedRequestError, Request, Response
from plimsoll.logs.ratelimited import RateLimitedLogger

log = logs.get(__name__)


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
