"""Flags of gangs, and of the mutating admission webhook that adds the gate."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from evaluator.core.model.requests import IGNORED
from evaluator.core.options import FeatureOptions
from evaluator.core.policy.vocabulary import Vocabulary
from evaluator.features.gangs.core.types import GangTimings
from plimsoll import durations, flags
from plimsoll.flags import option

_DEFAULT = GangTimings()


@dataclass(frozen=True, kw_only=True)
class WebhookOptions:
    """Webhook of gangs."""

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


@dataclass(frozen=True, kw_only=True)
class GangOptions(WebhookOptions, FeatureOptions):
    """Gangs. Times are in seconds."""

    gangs: bool = option(
        "gangs",
        False,
        "keep pods with the scheduling gate plimsoll.io/gang until their whole gang exists and fits, and release gangs by "
        "priority; watches all pods",
    )
    gang_timeout: float = option(
        "gangTimeout",
        _DEFAULT.timeout,
        "how long capacity is reserved for a released gang, while other gangs wait, until each of its pods has a node",
        metavar="DURATION",
        parse=flags.positive_duration,
    )
    gang_backoff: float = _DEFAULT.backoff
    """Initial back-off of a gang that timed out; doubles each time. Constant: no flag sets it, tests pass shorter ones."""
    gang_backoff_max: float = _DEFAULT.longest_backoff
    """Longest back-off. Constant."""
    gang_ageing: float = _DEFAULT.ageing
    """A gang that waited longer and would fit on empty nodes is not overtaken for `gang_timeout` at a time. Constant."""
    gang_fit: bool = option(
        "gangFit",
        True,
        "release a gang only if it fits. Otherwise complete gangs are released in order, one at a time: for clusters whose "
        "autoscaler adds nodes for pending pods, as it ignores gated ones",
    )
    gate_max_age: float = option(
        "gateMaxAge",
        0.0,
        "remove the gate from pods older than this even if their gang is not ready, with a warning event; 0: never",
        metavar="DURATION",
        parse=durations.duration,
    )
    gang_count_all: bool = option(
        "gangCountAll",
        False,
        "count finished and terminating pods for minAvailable too, as the Coscheduling plugin does",
    )
    gang_ignored_resources: tuple[str, ...] = option(
        "gangIgnoredResources",
        (),
        "extended resources to ignore when fitting gangs, such as those managed by a scheduler extender; repeatable, or "
        "comma-separated. telemetry/scheduling is always ignored",
        metavar="NAME",
        parse=flags.names,
    )

    @property
    def gang_timings(self) -> GangTimings:
        """The timings for decide()."""
        return GangTimings(
            timeout=self.gang_timeout,
            backoff=self.gang_backoff,
            longest_backoff=self.gang_backoff_max,
            ageing=self.gang_ageing,
            gate_max_age=self.gate_max_age or math.inf,
            fit=self.gang_fit,
        )

    @property
    def ignored_resources(self) -> frozenset[str]:
        """The ignored resources, including those that are always ignored."""
        named = {name for given in self.gang_ignored_resources for name in given.split(",")}
        return IGNORED | named

    def ports(self) -> Mapping[int, str]:
        """Return the webhook's port."""
        return {self.gang_webhook_port: "--gangWebhookPort"}

    def mistakes(self, taken: Mapping[int, str], vocabulary: Vocabulary) -> Iterator[str]:
        """Yield problems with the combination of these settings, each as a sentence."""
        yield from self.webhook_mistakes(taken, gangs=self.gangs)
        if 0 < self.gate_max_age <= self.gang_timeout:
            yield "--gateMaxAge must be greater than --gangTimeout, so that gangs can wait for their turn"
