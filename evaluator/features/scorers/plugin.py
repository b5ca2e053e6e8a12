"""The scorer interface: the protocol and its result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt

from evaluator.core.model.node_index import Floats, Mask
from evaluator.core.model.requests import PodView
from evaluator.features.scorers.snapshot import ClusterSnapshot, NodeRejection

Scores = npt.NDArray[np.int64]
"""0 to 10 for each node of the snapshot."""

BEST = 10
"""kube-scheduler's MaxExtenderPriority."""

POLICIES = "policies"
"""Name of the policies' extender among scorers, in --scorerWeights and /explain."""


@dataclass(frozen=True, slots=True)
class ScorerResult:
    """A scorer's result for one pod over all nodes. Predicates and priorities that are absent do not affect nodes."""

    refusals: Mapping[str, Sequence[NodeRejection]] = field(default_factory=dict)
    """By predicate. If several reject a node, the first reason counts."""
    scores: Mapping[str, Scores] = field(default_factory=dict)
    """By priority."""
    facts: Mapping[str, Floats] = field(default_factory=dict)
    """Inputs and intermediate values for /explain, NaN if unknown."""
    missing: Mask | None = None
    """The nodes with missing inputs; None if there are none. The host counts them; the scorer's own `WhenMissing` decides
    whether they are in `refusals`.
    """


class Scorer(Protocol):
    """Scores nodes. Pure: the same snapshot and pod give the same result; no I/O, no clock, no state."""

    @property
    def predicates(self) -> Sequence[str]:
        """The names of its filters; the first is that of /scorers/<name>/filter."""
        ...

    @property
    def priorities(self) -> Sequence[str]:
        """The names of its scores; the first is that of /scorers/<name>/prioritize."""
        ...

    @property
    def metrics(self) -> Sequence[str]:
        """The node metrics that it needs; agents report them."""
        ...

    def score(self, view: ClusterSnapshot, pod: PodView) -> ScorerResult:
        """Return the result for all nodes of the snapshot. It may depend on the pod's kind and requests only: results
        are cached by them.
        """
        ...


class WhenMissing(StrEnum):
    """How a scorer treats nodes with missing inputs; values of a flag."""

    IGNORE = "ignore"
    """The node passes with the scorer's score for unknown nodes."""
    REFUSE = "refuse"
    """The node is rejected with a reason."""


def when_missing(text: str) -> WhenMissing:
    """Return the WhenMissing of a flag's text. Raises ValueError for any other text."""
    try:
        return WhenMissing(text)
    except ValueError:
        raise ValueError(f"{text!r} is not one of {', '.join(WhenMissing)}") from None
