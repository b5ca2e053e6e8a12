"""The gang webhook's listener as the flags configure it: certificate, limits and handler."""

from collections.abc import Callable
from dataclasses import replace

from evaluator.config import Settings
from evaluator.gangs.webhook import CONNECTIONS, Webhook
from evaluator.metrics import Metrics
from evaluator.tls import server as tls
from evaluator.tls.reload import CertificateReloader
from plimsoll.http.limits import Limits
from plimsoll.http.server import Server
from plimsoll.http.tls import Tls

_TLS = tls.Port("gangs", "--gangWebhookCacert", "or serve no webhook (--gangWebhookPort=0)")


_BODY_BYTES = 4 << 20
"""An API server takes requests of 3 MiB; the pod comes once, with who asks and as what kind around it."""


_BODIES_BYTES = 64 << 20


def server(settings: Settings, metrics: Metrics) -> Server | None:
    """The port as the flags ask for it; None where they do not. Certificates are read now. Raises TlsError."""
    if not settings.gang_webhook_port:
        return None
    webhook = Webhook(metrics)
    secured = rotation(settings, on_change=metrics.reloaded(_TLS.name))
    return Server(
        webhook.answer,
        check=webhook.check,
        refuse=webhook.refuse,
        limits=limits(settings.limits),
        tls=secured.current,
    )


def rotation(settings: Settings, *, on_change: Callable[[bool], None]) -> CertificateReloader[Tls]:
    """The certificate that the scheduler's port has too, and by --gangWebhookCacert whom it talks to. Raises TlsError."""
    files = tls.Files(settings.cert, settings.key, settings.gang_webhook_cacert or None)
    return tls.rotation(files, port=_TLS, on_change=on_change)


def limits(most: Limits) -> Limits:
    """What one client may take: the times of the scheduler's port, and sizes of pods."""
    return replace(
        most,
        body_bytes=min(most.body_bytes, _BODY_BYTES),
        bodies_bytes=min(most.bodies_bytes, _BODIES_BYTES),
        connections=min(most.connections, CONNECTIONS),
    )
