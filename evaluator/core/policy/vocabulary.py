"""What policies may name beside strategies and the metrics of nodes: what the features of this evaluator provide.

Actions on nodes are annotations, and not fields of the spec: TAS's own CRD prunes fields that it does not know.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.strategies import COMPLIANCE
from evaluator.core.policy.types import LABEL, ActionPart, Actions, Policy
from plimsoll.text import shown

ACTIONS = "plimsoll.io/actions"


ParseActions = Callable[[str, Mapping[str, object], frozenset[str], list[str]], ActionPart]
"""Parses a feature's annotations: policy name, those that it declares, its actions that the policy names, problems.

Errors are added to the problems, and disable their action: nothing is done that the author did not write.
"""


@dataclass(frozen=True, slots=True)
class NodeActions:
    """One row of the table of actions: the names of a feature's actions on nodes, and what parses its annotations.

    `annotations`: the keys of these; the feature does not get others.
    """

    names: tuple[str, ...]
    parse: ParseActions
    annotations: tuple[str, ...] = ()


IF_PUBLIC = "{public}"
"""Ends the name of the column that has a metric about a policy only while that policy makes it public."""
PUBLIC = "public"
"""The value of the annotation that makes it public."""


class ReadPolicyMetric(NamedTuple):
    """How a rule reads a metric about a policy. `column`: what it compares; `shown`: the column whose values pages show."""

    column: str
    shown: str


@dataclass(frozen=True, slots=True)
class PolicyMetric:
    """A metric that a feature computes for a node and a policy.

    `<prefix><policy>` is about one of the same namespace, `<prefix><namespace>_<policy>` about any. `needs`: the annotation
    without which a policy has no such metric. `public`: the annotation that opens it to policies of all namespaces. `closed`:
    why policies of other namespaces may not read it; empty if they may. `since`: policies of other namespaces that were
    created after this time (Unix seconds) read it only while it is public.
    """

    prefix: str
    needs: str
    public: str
    closed: str = ""
    since: float = math.inf

    def policy_of(self, metric: str) -> PolicyKey | None:
        """Return the policy that a qualified metric is about. Names in Kubernetes have no `_`."""
        if not metric.startswith(self.prefix):
            return None
        about = metric.removeprefix(self.prefix).removesuffix(IF_PUBLIC)
        namespace, _, name = about.partition("_")
        return PolicyKey(namespace, name)

    def is_public(self, policy: Policy | None) -> bool:
        """Return whether a policy opens its metric to all namespaces; None: the policy does not exist."""
        return policy is not None and policy.annotations.get(self.public) == PUBLIC

    def lacking(self, key: PolicyKey, policy: Policy | None) -> Iterator[str]:
        """Yield why there is no such metric about a policy; None: the policy does not exist."""
        nothing = f"nothing produces {self.prefix}{key.name}"
        name = str(key) if key.namespace else key.name
        if policy is None:
            yield f"{nothing}: there is no policy {name}"
        elif self.needs not in policy.annotations:
            yield f"{nothing}: policy {name} has no annotation {self.needs}"


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words of policies that features define.

    `derived`: metrics that a feature computes for a node and a pod. They are not requested from sources, and are
    compared for each pod where kube-scheduler asks about one. `actions`: the table of actions on nodes. `of_policies`:
    metrics about a node and a policy. `conceals`: the pages of a policy do not show such metrics of other namespaces, unless
    they are public.
    """

    derived: frozenset[str] = frozenset()
    actions: tuple[NodeActions, ...] = ()
    of_policies: tuple[PolicyMetric, ...] = ()
    conceals: bool = False

    @property
    def annotations(self) -> frozenset[str]:
        """The keys of annotations that features read."""
        return frozenset(key for row in self.actions for key in row.annotations)

    def read(self, metric: str, namespace: str, created: float) -> ReadPolicyMetric | None:
        """Return how a policy of a namespace, created at a time (Unix seconds), reads a metric; None for one about no policy.

        Raises ValueError if it may not, whether or not there is such a metric; the message is for its author.
        """
        row = next((row for row in self.of_policies if metric.startswith(row.prefix)), None)
        if row is None:
            return None
        policy = metric.removeprefix(row.prefix)
        if "_" not in policy:
            metric = f"{row.prefix}{namespace}_{policy}"
        if metric.startswith(f"{row.prefix}{namespace}_"):
            return ReadPolicyMetric(metric, metric)
        if row.closed:
            raise ValueError(f"{metric}: {row.closed}")
        if_public = f"{metric}{IF_PUBLIC}"
        column = if_public if created > row.since else metric
        return ReadPolicyMetric(column, if_public if self.conceals else column)

    def unshared(
        self, policy: Policy, policies: Mapping[PolicyKey, Policy]
    ) -> Iterator[tuple[str, PolicyKey, PolicyMetric]]:
        """Yield the metrics of other namespaces that a policy uses although they are not public, or do not exist.

        `policies`: those that exist.
        """
        for metric in sorted(policy.derived_metrics):
            for row in self.of_policies:
                key = row.policy_of(metric)
                if key is None or key.namespace == policy.key.namespace or IF_PUBLIC in metric:
                    continue
                if not row.is_public(policies.get(key)):
                    yield metric, key, row

    def never_computed(
        self, metrics: Iterable[str], policies: Mapping[PolicyKey, Policy]
    ) -> Iterator[str]:
        """Yield why no feature computes some of these metrics about policies, with `policies` those that exist."""
        for metric in metrics:
            for row in self.of_policies:
                if key := row.policy_of(metric):
                    yield from row.lacking(key, policies.get(key))


NO_FEATURES = Vocabulary()
"""Without features, every metric is one of nodes, and the only action is the label."""


def merged(parts: Iterable[Vocabulary]) -> Vocabulary:
    """Return the words of several features."""
    parts = tuple(parts)
    return Vocabulary(
        frozenset[str]().union(*(part.derived for part in parts)),
        tuple(row for part in parts for row in part.actions),
        tuple(row for part in parts for row in part.of_policies),
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
        row.parse(
            policy,
            {key: annotations[key] for key in row.annotations if key in annotations},
            named.intersection(row.names),
            problems,
        )
        for row in table
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
