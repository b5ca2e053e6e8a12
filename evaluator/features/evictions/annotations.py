"""The annotation of a policy that admits pods to evictions which nothing, or not all, recreates: `plimsoll.io/evict`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from evaluator.core.policy.types import ActionPart, Policy
from evaluator.core.policy.vocabulary import NodeActions
from plimsoll.text import shown

EVICT = "plimsoll.io/evict"
BARE_PODS, JOBS = "bare-pods", "jobs"
_KNOWN = (BARE_PODS, JOBS)


@dataclass(frozen=True, slots=True)
class AdmittedPods(ActionPart):
    """The pods that a policy admits to evictions: of BARE_PODS, without a controller, and JOBS."""

    kinds_of_pods: frozenset[str] = frozenset()

    def described(self, policy: Policy) -> Iterator[str]:
        """Yield a sentence for each kind of pods."""
        if BARE_PODS in self.kinds_of_pods:
            yield "evict: also pods without a controller, which nothing recreates"
        if JOBS in self.kinds_of_pods:
            yield "evict: also pods of Jobs, which begin anew and count as failures"


def parse(
    _policy: str, annotations: Mapping[str, object], _kinds: frozenset[str], problems: list[str]
) -> AdmittedPods:
    """Return what a policy admits; unknown words are added to `problems` and admit nothing."""
    text = annotations.get(EVICT)
    words = [] if text is None else [word.strip() for word in str(text).split(",")]
    problems += (
        f"annotation {EVICT}: {shown(word)} is neither {' nor '.join(_KNOWN)}: left out"
        for word in [word for word in words if word not in _KNOWN][:3]
    )
    return AdmittedPods(kinds_of_pods=frozenset(words).intersection(_KNOWN))


EVICTED_PODS = NodeActions((), parse, (EVICT,))
"""It has no action that a policy names: the annotation alone admits pods."""
