"""Scores nodes by network congestion.

The annotation `congestion-factor`, a number from 0 to --congestionFactorMax as in kube-safe-scheduler, takes
precedence over measurements. kube-safe-scheduler computes `trunc(10 · (1 - factor / max) + 0.5)` and treats a node
without a factor as idle.

Without the annotation, the factor is `node_network_congestion_ratio` of deploy/rules/usage.yaml, over one minute:

    min(1, u + 10 · (r + d))

    u  the used share of the fastest link, in the busier direction:
       the larger of node_network_receive_utilisation_ratio and node_network_transmit_utilisation_ratio
    r  retransmitted TCP segments, as a share of those sent: node_netstat_Tcp_RetransSegs, node_netstat_Tcp_OutSegs
    d  dropped packets, as a share of those passed, in both directions, on the links that count for u:
       node_network_{receive,transmit}_drop_total, node_network_{receive,transmit}_packets_total

A loss of 1 % counts as much as a tenth of the link: congestion beyond the link shows only as loss. Below 1,000
segments or packets per second, shares are of 1,000, so that a few stray packets do not make an idle node look
congested. Without u there is no factor; r and d count if known.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluator.core.model.arrays import Floats
from evaluator.core.model.requests import PodView
from evaluator.core.model.resources import CONGESTION, CONGESTION_FACTOR
from evaluator.features.scorers.plugin import (
    BEST,
    ClusterSnapshot,
    NodeRejection,
    ScorerResult,
    Scores,
    WhenMissing,
    when_missing,
)
from plimsoll import flags
from plimsoll.flags import option

_NAME = "congestion"


@dataclass(frozen=True, kw_only=True)
class CongestionOptions:
    """Scorer `congestion`."""

    congestion_factor_max: int = option(
        "congestionFactorMax",
        100,
        f"the {CONGESTION_FACTOR} of a node whose network is full",
        metavar="N",
        parse=flags.count,
    )
    congestion_when_missing: WhenMissing = option(
        "congestionWhenMissing",
        WhenMissing.IGNORE,
        "a node with neither the annotation nor a measured factor: `ignore` gives it the mean score of the others, "
        "`refuse` rejects it",
        metavar="WHAT",
        parse=when_missing,
    )


class Congestion:
    """Prefers less congested nodes."""

    predicates: Sequence[str] = (_NAME,)
    priorities: Sequence[str] = (_NAME,)
    metrics: Sequence[str] = (CONGESTION,)

    def __init__(self, options: CongestionOptions | None = None) -> None:
        self._options = options or CongestionOptions()

    def score(self, view: ClusterSnapshot, pod: PodView) -> ScorerResult:
        """Return the result, which is the same for every pod."""
        ratio = self._ratio(view)
        missing = np.isnan(ratio)
        facts = {_NAME: ratio}
        if self._options.congestion_when_missing is WhenMissing.REFUSE:
            refused = NodeRejection(missing, "no measure of how congested its network is")
            filled = np.where(missing, 1.0, ratio)
            return ScorerResult({_NAME: [refused]}, {_NAME: scores(filled)}, facts, missing)
        filled = np.where(missing, _mean(ratio), ratio)
        return ScorerResult({}, {_NAME: scores(filled)}, facts, missing)

    def _ratio(self, view: ClusterSnapshot) -> Floats:
        """Return the congestion, 0 (idle) to 1 (full); NaN if unknown. Negative factors are ignored."""
        measured = view.unknown if view.congestion is None else view.congestion
        factor = self._factor(view)
        annotated = np.minimum(factor / self._options.congestion_factor_max, 1.0)
        return np.where(factor >= 0.0, annotated, np.clip(measured, 0.0, 1.0))

    def _factor(self, view: ClusterSnapshot) -> Floats:
        return view.annotations.get(CONGESTION_FACTOR, view.unknown)


def scores(ratio: Floats) -> Scores:
    """Return the scores of ratios from 0 (best) to 1, rounded half up."""
    return np.floor(BEST * (1.0 - ratio) + 0.5).astype(np.int64)


def _mean(ratio: Floats) -> float:
    """Return the mean of the known ratios; 0 if none is known."""
    known = ratio[~np.isnan(ratio)]
    return float(known.mean()) if known.size else 0.0
