"""Mutating admission webhook that adds our gate to new pods.

Every replica serves it, even if it is not leader, not ready or cannot reach the API server: a response depends on the request
only.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus

from evaluator.core import tls
from evaluator.core.metrics import Metrics
from evaluator.core.options import CoreOptions
from evaluator.core.tls import CertificateReloader
from evaluator.features.gangs.core import admission
from evaluator.features.gangs.metrics import GangMetrics
from evaluator.features.gangs.options import WebhookOptions
from plimsoll import logs
from plimsoll.fairlock import FairLock
from plimsoll.http.limits import Limits
from plimsoll.http.routes import Route, Routes
from plimsoll.http.server import Server
from plimsoll.http.tls import Tls
from plimsoll.http.types import Buffer, RejectedRequestError, Request, Response
from plimsoll.logs.ratelimited import RateLimitedLogger

log = logs.get(__name__)

PATH = "/gangs/gate"

_PART = 256 << 10
"""Bytes of a body scanned between two yields to the event loop."""
CONNECTIONS = 64
_TLS = tls.Port("gangs", "--gangWebhookCacert", "or serve no webhook (--gangWebhookPort=0)")

_BODY_BYTES = 4 << 20
"""API servers accept requests of 3 MiB; a review has the pod once, with the user and kind around it."""
_BODIES_BYTES = 64 << 20
_BODIES_RATE = 16 << 20
"""Clients need no certificate: their bodies must not take the event loop from kube-scheduler."""


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


def server(
    core: CoreOptions, options: WebhookOptions, metrics: Metrics, own_metrics: GangMetrics
) -> Server | None:
    """Return the listener, or None if it is off. Reads the certificates. Raises TlsError."""
    if not options.gang_webhook_port:
        return None
    webhook = Webhook(own_metrics)
    reloaded, expires = metrics.reloaded(_TLS.name), metrics.expires(_TLS.name)
    secured = rotation(core, options, on_change=reloaded, on_load=expires)
    return Server(
        webhook.answer,
        check=webhook.check,
        refuse=webhook.refuse,
        limits=limits(core.limits),
        tls=secured.current,
    )


def rotation(
    core: CoreOptions,
    options: WebhookOptions,
    *,
    on_change: Callable[[bool], None],
    on_load: tls.OnLoad = lambda _files: None,
) -> CertificateReloader[Tls]:
    """Return the certificate of the extender port, with the client CA of --gangWebhookCacert. Raises TlsError."""
    files = tls.Files(core.cert, core.key, options.gang_webhook_cacert or None)
    return tls.rotation(files, port=_TLS, on_change=on_change, on_load=on_load)


def limits(most: Limits) -> Limits:
    """Return the limits of the extender port, with sizes that fit pods."""
    return replace(
        most,
        body_bytes=min(most.body_bytes, _BODY_BYTES),
        bodies_bytes=min(most.bodies_bytes, _BODIES_BYTES),
        bodies_rate=_BODIES_RATE,
        connections=min(most.connections, CONNECTIONS),
    )
