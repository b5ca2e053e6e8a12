"""How a request is turned down on the scheduler's port: in JSON that kube-scheduler can show, and in a line of the log."""

import time

from evaluator.extender import codec
from plimsoll import logs
from plimsoll.http.types import RejectedRequestError, Request, Response
from plimsoll.ratelimit import TokenBucket

log = logs.get(__name__)


class ErrorResponder:
    """Words refusals. A client that means harm must not write the log as fast as it can send; the counters have them all."""

    def __init__(self) -> None:
        self._loud = TokenBucket(rate=1, burst=100)

    def answer(self, what: str, refused: RejectedRequestError, request: Request | None) -> Response:
        """The reply to who asked for `what`; there is no request where its header did not come whole."""
        status = refused.status
        loud = request is not None and self._loud.take_now(time.monotonic())
        tell = log.warning if loud else log.debug
        tell("%s refused", what, status=int(status), error=str(refused))
        sentence = codec.encode_error(str(refused))
        return Response(status, sentence, "application/json", refused.headers)
