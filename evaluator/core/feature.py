"""The interface of a feature: one entry in the list of features.

`evaluator.features.registry` lists them. Each is a package with a module `feature` that has a `Feature`; it imports
`evaluator.core`, and no other feature.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from prometheus_client import CollectorRegistry

from evaluator.core.assembly import Core
from evaluator.core.model.node import Node
from evaluator.core.options import FeatureOptions
from evaluator.core.page_fields import Fields
from evaluator.core.policy.vocabulary import NO_FEATURES, Vocabulary
from evaluator.core.wiring import Wired
from evaluator.core.writes.node_plan import Removal

Options = TypeVar("Options", bound=FeatureOptions)


def _nothing(_options: FeatureOptions) -> Iterable[str]:
    """Return nothing: the flags are enough."""
    return ()


def _no_metrics(_registry: CollectorRegistry) -> None:
    """Register nothing."""


@dataclass(frozen=True, kw_only=True)
class Written(Generic[Options]):
    """What a feature writes to nodes. `removals` yields the writes that remove it; `options`: the flags of `clean` for it."""

    what: str
    """As the help of `clean` names it."""
    options: type[Options]
    removals: Callable[[Options, Node], Iterator[Removal]]


@dataclass(frozen=True, kw_only=True)
class Feature(Generic[Options]):
    """One entry in the list of features. `wire` connects it; with its flags off it may return nothing to run."""

    name: str
    wire: Callable[[Core, Options], Wired]
    options: type[Options]
    metrics: Callable[[CollectorRegistry], object] = _no_metrics
    """Registers the metrics of the feature. `wire` calls it, also with the flags off; the documentation lists them by it."""
    check: Callable[[Options], Iterable[str]] = _nothing
    """Yields what keeps the feature from starting with these flags, each as a sentence."""
    vocabulary: Vocabulary = NO_FEATURES
    pages: Sequence[type[Fields]] = ()
    """Its pages as JSON, and the fields that it adds to pages of others, for the documentation."""
    written: Written[Any] | None = None
    """What it writes to nodes, for the command `clean`."""
