"""The annotations of a policy about its memory: `plimsoll.io/memory`, the half-life, `plimsoll.io/flapping`,
`plimsoll.io/memory-observed` and `plimsoll.io/score`.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.strategies import COMPLIANCE, StrategyName
from evaluator.core.policy.types import ActionPart, Policy
from evaluator.core.policy.vocabulary import PUBLIC, NodeActions
from evaluator.features.memory.scores import ANNOTATION
from plimsoll.durations import format_duration
from plimsoll.text import shown

FLAPPING = "plimsoll.io/flapping"
OFF = "off"
OBSERVED = "plimsoll.io/memory-observed"
COUNT = "count"
"""Its one value: violations of the policy count while it is only observed."""
SCORE = "plimsoll.io/score"
"""Its one value is `public`: policies of all namespaces may read the score."""
FLAPPING_ABOVE = 3.0
"""The score above which a node flaps, by default: its fourth violation in a short time."""
SHORTEST, LONGEST = 3600.0, 3650 * 86400.0
"""Bounds of a half-life (seconds)."""
_HALF_LIFE = re.compile(r"(\d{1,6})(h|d|w)", re.ASCII)
_UNITS = {"h": 3600.0, "d": 86_400.0, "w": 604_800.0}


@dataclass(frozen=True, slots=True)
class Memory(ActionPart):
    """The memory of one policy. `half_life`: seconds, 0 if it has none. `flapping_above`: infinity if nodes never flap.

    `count_observed`: violations count while the policy is only observed, too.
    """

    half_life: float = 0.0
    flapping_above: float = FLAPPING_ABOVE
    count_observed: bool = False

    def counts(self, policy: Policy) -> bool:
        """Return whether violations of the policy change scores now; those of an observed policy are kept and decay."""
        return bool(self.half_life) and (self.count_observed or not policy.observed)

    def records(self, policy: Policy, strategy: StrategyName) -> Iterator[tuple[str, str]]:
        """Yield the record of a violation that was counted and goes on: after a restart it is not counted again.

        It does not name the strategy: of several, it is the first one.
        """
        first = next((name for name in COMPLIANCE if name in policy.strategies), None)
        if self.counts(policy) and strategy is first:
            yield record(policy.key), VIOLATED

    def described(self, policy: Policy) -> Iterator[str]:
        """Yield a sentence about the memory."""
        if self.half_life:
            above = self.flapping_above
            flapping = (
                "" if math.isinf(above) else f"; above {above:g} it flaps, and stays violated"
            )
            observed = ", also while the policy is only observed" if self.count_observed else ""
            yield (
                f"memory: each violation{observed} adds 1 to violation_score_{policy.key.name} of the node, which halves in "
                f"{format_duration(self.half_life)}{flapping}"
            )


VIOLATED = "violated"


def record(policy: PolicyKey) -> str:
    """Return the name of the record of a policy's violation."""
    return f"memory {policy}"


def parse(
    _policy: str, annotations: Mapping[str, object], _kinds: frozenset[str], problems: list[str]
) -> Memory:
    """Return the memory of a policy; errors are added to `problems`, and then it has none."""
    half_life, above = annotations.get(ANNOTATION), annotations.get(FLAPPING)
    observed = annotations.get(OBSERVED)
    seconds = 0.0
    if half_life is not None and not (seconds := _seconds(str(half_life).strip())):
        problems.append(
            f"annotation {ANNOTATION}: {shown(half_life)} is not a half-life: write it like 30d, 12h or 8w, at least 1h: "
            "violations are not remembered"
        )
    level = _level(above)
    if level is None:
        problems.append(
            f"annotation {FLAPPING}: {shown(above)} is neither a score of 1 or more nor {OFF}: {FLAPPING_ABOVE:g} is used"
        )
        level = FLAPPING_ABOVE
    if above is not None and half_life is None:
        problems.append(f"annotation {FLAPPING}: it needs {ANNOTATION}, which keeps the score")
    counts = observed is not None and str(observed).strip() == COUNT
    if observed is not None and not counts:
        problems.append(
            f"annotation {OBSERVED}: {shown(observed)} is not {COUNT}: nothing is counted while the policy is observed"
        )
    score = annotations.get(SCORE)
    if score is not None and score != PUBLIC:
        problems.append(
            f"annotation {SCORE}: {shown(score)} is not {PUBLIC}: other namespaces do not read the score"
        )
    for name, value in ((OBSERVED, observed), (SCORE, score)):
        if value is not None and half_life is None:
            problems.append(f"annotation {name}: it needs {ANNOTATION}, which keeps the score")
    return Memory(half_life=seconds, flapping_above=level, count_observed=counts)


MEMORY = NodeActions((), parse, (ANNOTATION, FLAPPING, OBSERVED, SCORE))
"""It has no action that a policy names: the annotation alone switches it on."""


def _seconds(text: str) -> float:
    found = _HALF_LIFE.fullmatch(text)
    seconds = int(found[1]) * _UNITS[found[2]] if found else 0.0
    return seconds if SHORTEST <= seconds <= LONGEST else 0.0


def _level(text: object) -> float | None:
    if text is None:
        return FLAPPING_ABOVE
    if str(text).strip() == OFF:
        return math.inf
    try:
        level = float(str(text)[:20])
    except ValueError:
        return None
    return level if 1 <= level <= 1000 else None
