"""What a scorer is, and what it answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt

from evaluator.model.node_index import Floats, Mask
from evaluator.model.pod_demand import PodView
from evaluator.scoring.snapshot import ClusterSnapshot, NodeRejection

Scores = npt.NDArray[np.int64]
"""0 to 10 for each node of the view."""

BEST = 10
"""kube-scheduler's MaxExtenderPriority."""


@dataclass(frozen=True, slots=True)
class ScorerResult:
    """What a scorer says of every node for one pod. A predicate or priority that it does not name leaves the nodes alone."""

    refusals: Mapping[str, Sequence[NodeRejection]] = field(default_factory=dict)
    """By predicate. Where several refuse a node, the first reason counts."""
    scores: Mapping[str, Scores] = field(default_factory=dict)
    """By priority."""
    facts: Mapping[str, Floats] = field(default_factory=dict)
    """What it was computed from, for /explain: inputs and intermediate values, NaN where there is none."""
    missing: Mask | None = None
    """The nodes of which it lacks what it needs; None for a scorer that lacks nothing. The host counts them; whether they
    are refused is the scorer's own `WhenMissing`, and so in `refusals`."""


class Scorer(Protocol):
    """Assesses nodes. Pure: the same view and pod give the same assessment, and nothing is read, awaited or remembered."""

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
        """The metrics of nodes that it takes: agents are asked for them."""
        ...

    def score(self, view: ClusterSnapshot, pod: PodView) -> ScorerResult:
        """All nodes of the view, for one pod: by its kind and amounts, as the answer is used for the next pod alike, too."""
        ...


# MERGED DOCSTRING: What becomes of a node of which a scorer lacks what it needs.


class WhenMissing(StrEnum):
    """Words of a flag."""

    IGNORE = "ignore"
    """It passes, and gets the score that its scorer gives to the unknown."""
    REFUSE = "refuse"
    """It is filtered out, with a reason."""


def when_missing(text: str) -> WhenMissing:
    """One of these words. Raises ValueError for another."""
    try:
        return WhenMissing(text)
    except ValueError:
        raise ValueError(f"{text!r} is not one of {', '.join(WhenMissing)}") from None
