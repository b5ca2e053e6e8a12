"""Flags of requeueing."""

from dataclasses import dataclass

from evaluator.core.options import FeatureOptions
from plimsoll.flags import option


@dataclass(frozen=True, kw_only=True)
class RequeueOptions(FeatureOptions):
    """Requeueing of rejected pods."""

    nudge: bool = option(
        "nudge",
        True,
        "requeue a rejected pod, by an annotation on it, as soon as its policy permits a node again; without it "
        "kube-scheduler retries within 5 minutes",
    )
