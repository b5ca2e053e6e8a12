"""How a request is turned down on the scheduler's port: in JSON that kube-scheduler can show, and in a line of the log."""

from evaluator.extender import codec
from plimsoll import logs
from plimsoll.http.types import RejectedRequestError, Request, Response
from plimsoll.logs.ratelimited import RateLimitedLogger

log = logs.get(__name__)


class ErrorResponder:
    """Words refusals. A client that means harm must not write the log as fast as it can send; the counters have them all."""

    def __init__(self) -> None:
        self._limited = RateLimitedLogger(_warning, overflow=_debug, rate=1, burst=100)

    def answer(self, what: str, refused: RejectedRequestError, request: Request | None) -> Response:
        """The reply to who asked for `what`; there is no request where its header did not come whole."""
        status = refused.status
        write = log.debug if request is None else self._limited.log
        write(f"{what} refused", status=int(status), error=str(refused))
        sentence = codec.encode_error(str(refused))
        return Response(status, sentence, "application/json", refused.headers)


# Looked up at each line, since logging may be set up after the responder is made.


def _warning(event: str, **fields: object) -> None:
    log.warning(event, **fields)


def _debug(event: str, **fields: object) -> None:
    log.debug(event, **fields)
