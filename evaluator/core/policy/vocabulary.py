"""What policies may name beside strategies and the metrics of nodes: what the features of this evaluator provide.

Actions on nodes are annotations, and not fields of the spec: TAS's own CRD prunes fields that it does not know.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from evaluator.core.policy.strategies import COMPLIANCE
from evaluator.core.policy.types import LABEL, ActionPart, Actions
from plimsoll.text import shown

ACTIONS = "plimsoll.io/actions"


ParseActions = Callable[[str, Mapping[str, object], frozenset[str], list[str]], ActionPart]
"""Parses a feature's annotations: policy name, all annotations, the feature's actions that the policy names, problems.

Errors are added to the problems, and disable their action: nothing is done that the author did not write.
"""


@dataclass(frozen=True, slots=True)
class NodeActions:
    """One row of the table of actions: the names of a feature's actions on nodes, and what parses their annotations."""

    names: tuple[str, ...]
    parse: ParseActions


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words of policies that features define.

    `derived`: metrics that a feature computes for a node and a pod. They are not requested from sources, and are
    compared for each pod where kube-scheduler asks about one. `actions`: the table of actions on nodes. `of_policies`: prefixes
    of metrics that a feature computes for a node and a policy: `<prefix><policy>` is one of the same namespace,
    `<prefix><namespace>_<policy>` of any.
    """

    derived: frozenset[str] = frozenset()
    actions: tuple[NodeActions, ...] = ()
    of_policies: tuple[str, ...] = ()

    def qualified(self, metric: str, namespace: str) -> str:
        """Return the name of a metric about a policy with its namespace; empty for any other metric."""
        for prefix in self.of_policies:
            if metric.startswith(prefix):
                policy = metric.removeprefix(prefix)
                return metric if "_" in policy else f"{prefix}{namespace}_{policy}"
        return ""


NO_FEATURES = Vocabulary()
"""Without features, every metric is one of nodes, and the only action is the label."""


def merged(parts: Iterable[Vocabulary]) -> Vocabulary:
    """Return the words of several features."""
    parts = tuple(parts)
    return Vocabulary(
        frozenset[str]().union(*(part.derived for part in parts)),
        tuple(row for part in parts for row in part.actions),
        tuple(prefix for part in parts for prefix in part.of_policies),
    )


def parse_actions(
    policy: str,
    annotations: Mapping[str, object],
    problems: list[str],
    table: Sequence[NodeActions],
    *,
    can_violate: bool,
) -> Actions:
    """Return the actions of a policy; errors are added to `problems`.

    `table`: what features provide. `can_violate`: the policy has a strategy that determines compliance.
    """
    named = _named(annotations.get(ACTIONS), problems, table)
    others = ", ".join(sorted(named - {LABEL}))
    if others and not can_violate:
        neither = " nor ".join(COMPLIANCE)
        problems.append(
            f"annotation {ACTIONS}: {others}: the policy has neither {neither}: no node is acted on"
        )
        named &= {LABEL}
    parts = tuple(
        row.parse(policy, annotations, named.intersection(row.names), problems) for row in table
    )
    return Actions((named & {LABEL}).union(*(part.kinds for part in parts)), parts)


def _named(text: object, problems: list[str], table: Sequence[NodeActions]) -> frozenset[str]:
    """Return the known actions that the annotation names."""
    if text is None:
        return frozenset({LABEL})
    known = (LABEL, *(name for row in table for name in row.names))
    words = [word.strip() for word in str(text).split(",")]
    unknown = [word for word in words if word and word not in known]
    problems += (
        f"annotation {ACTIONS}: {shown(word)} is unknown (one of {', '.join(known)}): left out"
        for word in unknown[:3]
    )
    return frozenset(words).intersection(known)
