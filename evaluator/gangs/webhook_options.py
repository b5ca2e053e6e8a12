"""Flags of the port on which the API server asks whether a new pod is to be held."""

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
        "port of the webhook that puts the gate on pods of gangs as they are created, over TLS with --cert and --key; 0: "
        "none, and the gate is in pod templates, or put there by deploy/gangs/policy",
        metavar="PORT",
        parse=flags.port,
    )
    gang_webhook_cacert: str = option(
        "gangWebhookCacert",
        "",
        "the CA that must have signed the API server's client certificate on that port; without one no client needs any, "
        "as API servers show none unless they are told to",
        metavar="FILE",
    )

    def webhook_mistakes(self, taken: Mapping[int, str], *, lifting: bool) -> Iterator[str]:
        """What is wrong with these settings, each in a sentence; `taken` are ports, each with the flag that has it.

        `lifting`: whether somebody is there to lift the gates.
        """
        if not self.gang_webhook_port:
            if self.gang_webhook_cacert:
                yield "--gangWebhookCacert is of no use without --gangWebhookPort"
            return
        if not lifting:
            yield "--gangWebhookPort needs --gangs, or nobody would lift the gates that it puts on pods"
        if self.gang_webhook_port in taken:
            yield f"--gangWebhookPort: {self.gang_webhook_port} is the port of {taken[self.gang_webhook_port]}"
