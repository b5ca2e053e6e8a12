"""Warnings for `check`: valid parts of a policy that its author probably did not intend, and pods without the policy they name."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import msgspec

from evaluator.core.cache.policy_pods import NotApplied, needs_request, sentence
from evaluator.core.model.names import EXTENDER_RESOURCE, POLICY_LABEL, PolicyKey
from evaluator.core.model.node_labels import value_flaw
from evaluator.core.model.pod import Pod
from evaluator.core.policy.labeling import rules_by_label
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Operator, Policy, Rule, Strategy, WhenMissing
from plimsoll.text import counted

_EXACT = 2**53
_TEMPLATE = ("spec", "template")
_TEMPLATES: Mapping[tuple[str, str], Sequence[str]] = {
    ("v1", "Pod"): (),
    ("v1", "ReplicationController"): _TEMPLATE,
    ("apps", "Deployment"): _TEMPLATE,
    ("apps", "StatefulSet"): _TEMPLATE,
    ("apps", "DaemonSet"): _TEMPLATE,
    ("apps", "ReplicaSet"): _TEMPLATE,
    ("batch", "Job"): _TEMPLATE,
    ("batch", "CronJob"): ("spec", "jobTemplate", *_TEMPLATE),
}
"""Path of the pod template by API group (or v1) and kind."""


def advice(policy: Policy, obj: Mapping[str, Any]) -> Iterator[str]:
    """Yield warnings about a policy; `obj` is its manifest."""
    if not policy.strategies and not policy.problems:
        yield "it has no strategies, so it does not restrict its pods"
    for name, strategy in policy.strategies.items():
        yield from (f"{name}: {sentence}" for sentence in _of_strategy(name, strategy))
        yield from _of_manifest(name, obj["spec"]["strategies"][name])
    for part in policy.actions.parts:
        yield from part.advice(policy)
    yield from _of_descheduling(policy)


def _of_strategy(name: StrategyName, strategy: Strategy) -> Iterator[str]:
    rules = strategy.rules
    if not rules and not strategy.impossible:
        yield "it has no rules, so it does nothing"
    for number, rule in enumerate(rules, start=1):
        if rule in rules[: number - 1]:
            yield f"rule {number} is a duplicate"
        if abs(rule.target) > _EXACT:
            yield f"rule {number}: numbers beyond 2^53 are compared as doubles, not exactly"
    if name.row.ranks:
        return
    if strategy.all_of and _contradict(rules):
        yield "no reading matches all of its rules at once, so it is never violated"
    if not strategy.all_of and (metric := _always(rules)):
        yield f"every value of {metric} matches one of its rules: every node with a reading violates it"
    yield from _of_labels(strategy)


def _of_labels(strategy: Strategy) -> Iterator[str]:
    """Yield a warning for each label that is omitted where two rules of the strategy match."""
    for key, by_value in rules_by_label(strategy).items():
        owners = [(number, value) for value, same in by_value.items() for number in same]
        pairs = (
            sorted((one, other))
            for (one, value), (other, another) in combinations(owners, 2)
            if value != another and _contradictory(strategy.rules[one], strategy.rules[other])
        )
        if pair := next(iter(sorted(pairs)), None):
            one, other = (number + 1 for number in pair)
            yield (
                f"label {key} is not set on nodes where rules {one} and {other} both match: they have different "
                "operators and set different values"
            )


def _contradictory(one: Rule, other: Rule) -> bool:
    """Return whether rules with different operators can match on one node."""
    return one.operator is not other.operator and not _contradict((one, other))


def _of_manifest(name: StrategyName, body: Mapping[str, Any]) -> Iterator[str]:
    rules = body["rules"]
    if name.row.ranks:
        if len(rules) > 1:
            yield f"{name}: only the first rule ranks nodes; ignored: {counted(len(rules) - 1, 'rule')}"
        if isinstance(rules[0] if rules else None, Mapping) and rules[0].get("target"):
            yield f"{name}: a ranking has no target; it is ignored"
    if not name.row.sets_labels:
        for number, rule in enumerate(rules, start=1):
            if isinstance(rule, Mapping) and rule.get("labels"):
                yield f"{name}: rule {number}: labels are set by the strategy labeling only"


def _of_descheduling(policy: Policy) -> Iterator[str]:
    leave = policy.strategies.get(StrategyName.DESCHEDULE)
    if leave is None or not leave.rules or leave.impossible:
        return
    if not covers(policy.strategies.get(StrategyName.DONTSCHEDULE), leave):
        yield (
            f"{StrategyName.DESCHEDULE}: {StrategyName.DONTSCHEDULE} does not reject every node that pods are to leave: "
            "pods may be scheduled there again at once, and must leave again"
        )
    if any(rule.options.when_missing is WhenMissing.VIOLATE for rule in leave.rules):
        yield (
            f"{StrategyName.DESCHEDULE}: with whenMissing: violate, pods are to leave a node whose telemetry fails"
        )


def covers(stay_away: Strategy | None, leave: Strategy) -> bool:
    """Return whether each node that violates `leave` also violates `stay_away`."""
    if stay_away is None or not stay_away.rules:
        return False
    own, theirs = stay_away.rules, leave.rules
    if leave.all_of:  # all of these match
        rejected = [any(implies(one, other) for one in theirs) for other in own]
        return all(rejected) if stay_away.all_of else any(rejected)
    each = all if stay_away.all_of else any
    return all(each(implies(one, other) for other in own) for one in theirs)


def implies(one: Rule, other: Rule) -> bool:
    """Return whether every reading that matches `one` also matches `other`, at least as soon and as long."""
    if one.metric != other.metric:
        return False
    if (one.options.when_missing, other.options.when_missing) == (
        WhenMissing.VIOLATE,
        WhenMissing.IGNORE,
    ):
        return False
    if (
        one.options.for_seconds < other.options.for_seconds
        or one.options.clear_after > other.options.clear_after
    ):
        return False
    match one.operator, other.operator:
        case Operator.EQUALS, Operator.LESS_THAN:
            return one.target < other.target
        case Operator.EQUALS, Operator.GREATER_THAN:
            return one.target > other.target
        case Operator.LESS_THAN, Operator.LESS_THAN:
            return one.target <= other.target
        case Operator.GREATER_THAN, Operator.GREATER_THAN:
            return one.target >= other.target
        case _:
            return one.operator is other.operator and one.target == other.target


def _contradict(rules: Sequence[Rule]) -> bool:
    """Return whether two rules about one metric cannot both match."""
    plain = [
        r
        for r in rules
        if not r.options.timed and r.options.when_missing is not WhenMissing.VIOLATE
    ]
    return any(
        one.metric == other.metric and _exclude(one, other) for one in plain for other in plain
    )


def _exclude(one: Rule, other: Rule) -> bool:
    match one.operator, other.operator:
        case Operator.EQUALS, Operator.EQUALS:
            return one.target != other.target
        case Operator.EQUALS, Operator.LESS_THAN:
            return one.target >= other.target
        case Operator.EQUALS, Operator.GREATER_THAN:
            return one.target <= other.target
        case Operator.LESS_THAN, Operator.GREATER_THAN:
            return one.target <= other.target
        case _:
            return False


def _always(rules: Sequence[Rule]) -> str:
    """Return a metric for which every value matches some rule; empty if there is none."""
    for metric in dict.fromkeys(rule.metric for rule in rules):
        own = [rule for rule in rules if rule.metric == metric]
        below = [rule.target for rule in own if rule.operator is Operator.LESS_THAN]
        above = [rule.target for rule in own if rule.operator is Operator.GREATER_THAN]
        if below and above and max(below) > min(above):
            return metric
    return ""


@dataclass(frozen=True, slots=True)
class Workload:
    """The parts of a Pod or workload that concern policies. `policy`: the label's value on its pods, empty if absent."""

    namespace: str
    policy: str
    requests: bool
    template: str
    """The path of the pod template in the manifest; empty for a Pod."""
    own_label: str = ""
    """The label's value on the workload itself."""
    error: str = ""
    """Why its pod template cannot be read."""

    @property
    def concerns_policies(self) -> bool:
        """Whether it names a policy, or requests the extender's resource."""
        return bool(self.policy or self.requests or self.own_label or self.error)


def workload(obj: Mapping[str, Any]) -> Workload | None:
    """Return a Pod or workload; None for other kinds of objects."""
    group = str(obj.get("apiVersion")).partition("/")[0]
    if (path := _TEMPLATES.get((group, str(obj.get("kind"))))) is None:
        return None
    part: Any = obj
    for step in path:
        part = part.get(step) if isinstance(part, Mapping) else None
    meta = obj.get("metadata")
    meta = meta if isinstance(meta, Mapping) else {}
    labels = meta.get("labels")
    own = labels.get(POLICY_LABEL) if path and isinstance(labels, Mapping) else ""
    where, namespace = ".".join(path), str(meta.get("namespace") or "")
    try:
        template = msgspec.convert(part or {}, type=dict[str, Any])
        fields = {key: value for key, value in template.items() if value is not None}
        pod = msgspec.convert({"metadata": {}, **fields}, type=Pod)
    except msgspec.ValidationError as error:
        own = str(own or "")
        return Workload(namespace, "", False, where, own, f"{where or 'pod'}: {error}")
    policy = (pod.metadata.labels or {}).get(POLICY_LABEL, "")
    if flaw := value_flaw(policy):
        label = f"{where}.metadata.labels" if where else "metadata.labels"
        flaw = f"{label}: {POLICY_LABEL}: {flaw}: the API server rejects it"
        return Workload(namespace, policy, pod.spec.requests_extender, where, str(own or ""), flaw)
    return Workload(namespace, policy, pod.spec.requests_extender, where, str(own or ""))


def workload_warnings(checked: Workload, policies: Mapping[PolicyKey, Policy]) -> Iterator[str]:
    """Yield why the pods' policy does not apply, as far as the given policies tell."""
    if not checked.policy:
        if checked.own_label:
            yield (
                f"the label {POLICY_LABEL} is in metadata.labels and not in {checked.template}.metadata.labels, so the pods "
                "do not have it and no policy applies to them"
            )
        elif checked.requests:
            yield f"its pods request {EXTENDER_RESOURCE} but have no label {POLICY_LABEL}, so no policy applies to them"
        return
    key = PolicyKey(checked.namespace, checked.policy)
    # Without a namespace, a manifest's namespace is that of kubectl.
    near = {
        k: p
        for k, p in policies.items()
        if not checked.namespace or k.namespace in ("", checked.namespace)
    }
    same = [policy for other, policy in near.items() if other.name == key.name]
    if policies and not same:
        elsewhere = any(other.name == key.name for other in policies)
        why = NotApplied.OTHER_NAMESPACE if elsewhere else NotApplied.NO_POLICY
        names = {other.name for other in near}
        if elsewhere or names:
            yield sentence(key, why, names)
    if not checked.requests and (not same or any(map(needs_request, same))):
        yield sentence(key, NotApplied.NO_REQUEST)
