"""The interface of a feature: one entry in the list of features.

`evaluator.features.registry` lists them. Each is a package with a module `feature` that has a `Feature`; it imports
`evaluator.core`, and no other feature.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from evaluator.core.assembly import Core
from evaluator.core.options import FeatureOptions
from evaluator.core.policy.vocabulary import NO_FEATURES, Vocabulary
from evaluator.core.wiring import Wired

Options = TypeVar("Options", bound=FeatureOptions)


def _nothing(_options: FeatureOptions) -> Iterable[str]:
    """Return nothing: the flags are enough."""
    return ()


@dataclass(frozen=True, kw_only=True)
class Feature(Generic[Options]):
    """One entry in the list of features. `wire` connects it; with its flags off it may return nothing to run."""

    name: str
    wire: Callable[[Core, Options], Wired]
    options: type[Options]
    check: Callable[[Options], Iterable[str]] = _nothing
    """Yields what keeps the feature from starting with these flags, each as a sentence."""
    vocabulary: Vocabulary = NO_FEATURES
