"""Flags of the mutating admission webhook that adds the gate."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from plimsoll import flags
from plimsoll.flags import option


@dataclass(frozen=True, kw_only=True)
class WebhookOptions:
    """The mutating admission webhook of gangs."""

    gang_webhook_port: int = option(
        "gangWebhookPort",
        0,
        "port of the webhook that adds the gate to new pods of gangs, over TLS with --cert and --key; 0: no webhook, the gate "
        "comes from pod templates or deploy/gangs/policy",
        metavar="PORT",
        parse=flags.port,
    )
    gang_webhook_cacert: str = option(
        "gangWebhookCacert",
        "",
        "CA of the API server's client certificate on that port; by default no client certificate is required, as API servers "
        "send none unless configured",
        metavar="FILE",
    )

    def webhook_mistakes(self, taken: Mapping[int, str], *, gangs: bool) -> Iterator[str]:
        """Yield problems with these settings, each as a sentence. `taken`: the flag of each port in use; `gangs`: --gangs."""
        if not self.gang_webhook_port:
            if self.gang_webhook_cacert:
                yield "--gangWebhookCacert requires --gangWebhookPort"
            return
        if not gangs:
            yield "--gangWebhookPort requires --gangs, as only that removes the gates it adds"
        if self.gang_webhook_port in taken:
            yield f"--gangWebhookPort: {self.gang_webhook_port} is the port of {taken[self.gang_webhook_port]}"
