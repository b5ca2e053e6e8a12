"""Flags of evictions."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from evaluator.core.options import FeatureOptions
from evaluator.core.policy.vocabulary import Vocabulary
from plimsoll import durations, flags
from plimsoll.flags import option


@dataclass(frozen=True, kw_only=True)
class EvictionOptions(FeatureOptions):
    """Evictions. Times are in seconds."""

    evict: bool = option(
        "evict", False, "evict pods from nodes that violate their policy's deschedule strategy"
    )
    evict_period: float = option(
        "evictPeriod",
        10.0,
        "period in which at most --evictLimit pods of one policy are evicted",
        metavar="DURATION",
        parse=durations.duration,
    )
    evict_limit: int = option(
        "evictLimit", 1, "evictions per policy in one period", metavar="N", parse=flags.count
    )

    def mistakes(self, taken: Mapping[int, str], vocabulary: Vocabulary) -> Iterable[str]:
        """Yield errors in these flags together, each as a sentence."""
        if self.evict_period <= 0:
            yield "--evictPeriod must be more than 0, or --evictLimit has no effect"
