"""The gang webhook's listener as the flags configure it: certificate, limits and handler."""

from collections.abc import Callable
from dataclasses import replace

from evaluator.core.metrics import Metrics
from evaluator.core.options import CoreOptions
from evaluator.core.tls import server as tls
from evaluator.core.tls.reload import CertificateReloader
from evaluator.features.gangs.metrics import GangMetrics
from evaluator.features.gangs.options import WebhookOptions
from evaluator.features.gangs.webhook import CONNECTIONS, Webhook
from plimsoll.http.limits import Limits
from plimsoll.http.server import Server
from plimsoll.http.tls import Tls

_TLS = tls.Port("gangs", "--gangWebhookCacert", "or serve no webhook (--gangWebhookPort=0)")

_BODY_BYTES = 4 << 20
"""API servers accept requests of 3 MiB; a review has the pod once, with the user and kind around it."""
_BODIES_BYTES = 64 << 20
_BODIES_RATE = 16 << 20
"""Clients need no certificate: their bodies must not take the event loop from kube-scheduler."""


def server(
    core: CoreOptions, options: WebhookOptions, metrics: Metrics, own_metrics: GangMetrics
) -> Server | None:
    """Return the listener, or None if it is off. Reads the certificates. Raises TlsError."""
    if not options.gang_webhook_port:
        return None
    webhook = Webhook(own_metrics)
    secured = rotation(core, options, on_change=metrics.reloaded(_TLS.name))
    return Server(
        webhook.answer,
        check=webhook.check,
        refuse=webhook.refuse,
        limits=limits(core.limits),
        tls=secured.current,
    )


def rotation(
    core: CoreOptions, options: WebhookOptions, *, on_change: Callable[[bool], None]
) -> CertificateReloader[Tls]:
    """Return the certificate of the extender port, with the client CA of --gangWebhookCacert. Raises TlsError."""
    files = tls.Files(core.cert, core.key, options.gang_webhook_cacert or None)
    return tls.rotation(files, port=_TLS, on_change=on_change)


def limits(most: Limits) -> Limits:
    """Return the limits of the extender port, with sizes that fit pods."""
    return replace(
        most,
        body_bytes=min(most.body_bytes, _BODY_BYTES),
        bodies_bytes=min(most.bodies_bytes, _BODIES_BYTES),
        bodies_rate=_BODIES_RATE,
        connections=min(most.connections, CONNECTIONS),
    )
