"""Mutating admission webhook that adds our gate to new pods.

Every replica serves it, even if it is not leader, not ready or cannot reach the API server: a response depends on the request
only.
"""

import asyncio
import time
from http import HTTPStatus

from evaluator.features.gangs.core import admission
from evaluator.features.gangs.metrics import GangMetrics
from plimsoll import logs
from plimsoll.fairlock import FairLock
from plimsoll.http.routes import Route, Routes
from plimsoll.http.types import Buffer, RejectedRequestError, Request, Response
from plimsoll.logs.ratelimited import RateLimitedLogger

log = logs.get(__name__)

PATH = "/gangs/gate"

_PART = 256 << 10
"""Bytes of a body scanned between two yields to the event loop."""
CONNECTIONS = 64


class Webhook:
    """Answers POSTs of an AdmissionReview to PATH."""

    def __init__(self, metrics: GangMetrics) -> None:
        self._admissions = metrics.gang_admissions
        self._limited = RateLimitedLogger(log, overflow="debug", rate=1, burst=100)
        self._turns = FairLock(CONNECTIONS)
        routes = Routes({PATH: Route(self._serve, ("POST",))}, self.refuse)
        self.answer, self.check = routes.answer, routes.check

    def refuse(self, refused: RejectedRequestError, request: Request | None) -> Response:
        """Return an error as a Status object; the API server then applies the webhook's failurePolicy."""
        self._admissions.labels("refused").inc()
        write = log.debug if request is None else self._limited.log
        write("admission review refused", status=int(refused.status), error=str(refused))
        body = admission.refusal(refused.status, str(refused))
        return Response(refused.status, body, "application/json", refused.headers)

    async def _serve(self, request: Request) -> Response:
        try:
            async with self._turns.hold():
                answer = await _answer(request.body)
        except admission.BadReviewError as error:
            return self.refuse(RejectedRequestError(HTTPStatus.BAD_REQUEST, str(error)), request)
        self._admissions.labels(answer.result.value).inc()
        log.debug("admission review", pod=answer.pod, result=answer.result.value)
        return Response(HTTPStatus.OK, answer.body, "application/json")


async def _answer(body: Buffer) -> admission.AdmissionAnswer:
    """Decode one review at a time, with a pause as long as the work: a client needs no certificate to send one."""
    view, delimiters, begun = memoryview(body), 0, time.perf_counter()
    for at in range(0, len(view), _PART):
        delimiters += admission.delimiters(view[at : at + _PART])
        if delimiters > admission.MOST_DELIMITERS:
            raise admission.BadReviewError(
                f"a review with more than {admission.MOST_DELIMITERS} brackets, commas, quotes, escapes and blanks"
            )
        await asyncio.sleep(0)
    try:
        return admission.answer(body)
    finally:
        await asyncio.sleep(time.perf_counter() - begun)
