"""A TASPolicy object turned into typed rules, with everything that is wrong with it said in words.

Reading never fails as a whole: what cannot be understood becomes a problem in the policy's status, and the rest works.
The resource is Telemetry Aware Scheduling's, `telemetry.intel.com/v1alpha1`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from evaluator.model import node_labels
from evaluator.model.names import PolicyKey
from evaluator.policy import rule_options
from evaluator.policy.rule_options import PLAIN, RuleOptions
from evaluator.policy.types import (
    PER_POD_STRATEGIES,
    Label,
    Operator,
    Policy,
    Rule,
    Strategy,
    StrategyName,
)
from evaluator.scoring import derived
from plimsoll.text import one_line, shown

MOST_RULES = 100
"""Of one strategy. Each is evaluated on every node, and whoever may write a policy must not stop all others' by a long one."""
MOST_LABELS = 50
"""Keys that one policy may set: nodes have to carry them all, and an object has a size that it cannot exceed."""
MOST_BYTES = 256 << 10
"""Of a spec's JSON. Four strategies of 100 rules with some labels each take a third of it."""
_MOST_STRATEGIES = 16
_MOST_LABEL_TEXTS = 1_000
"""Labels that are read of one strategy: rules may repeat a key, so they may be more than keys."""
_MOST_PROBLEMS = 20

_METRIC = re.compile(r"[a-zA-Z0-9_-]{1,253}", re.ASCII)


def parse(obj: Mapping[str, Any]) -> Policy:
    """Read a TASPolicy as the API server holds it. Its problems say what was left out, and why."""
    meta = obj["metadata"]
    key = PolicyKey(meta.get("namespace", ""), meta["name"])
    problems: list[str] = []
    strategies: dict[StrategyName, Strategy] = {}
    spec = obj.get("spec")
    named = spec.get("strategies") if isinstance(spec, Mapping) else None
    if not isinstance(named, Mapping):
        problems.append("spec.strategies: missing")
        named = {}
    if len(named) > _MOST_STRATEGIES:
        problems.append(f"it names {len(named)} strategies: those that are not known are left out")
        named = {name: named[name] for name in StrategyName if name in named}
    for name, body in sorted(named.items()):
        if name not in tuple(StrategyName):
            known = ", ".join(StrategyName)
            problems.append(f"strategy {shown(name)} is not known (one of {known}): left out")
            continue
        try:
            strategies[StrategyName(name)] = _Reader(key.name, StrategyName(name), problems).read(
                body
            )
        except _FlawError as flaw:
            problems.append(f"{name}: {flaw}: the strategy is not enforced")
    return _policy(obj, strategies, problems)


def oversized(obj: Mapping[str, Any], size: int) -> Policy:
    """The policy for an object whose spec has `size` bytes, more than MOST_BYTES: nothing of it is read or enforced."""
    return _policy(
        obj, {}, [f"spec: it has {size} bytes, more than {MOST_BYTES}: the policy is not enforced"]
    )


def _policy(
    obj: Mapping[str, Any], strategies: Mapping[StrategyName, Strategy], problems: list[str]
) -> Policy:
    meta, said = obj["metadata"], obj.get("status")
    return Policy(
        PolicyKey(meta.get("namespace", ""), meta["name"]),
        strategies,
        _some(problems),
        uid=meta.get("uid", ""),
        generation=int(meta.get("generation") or 0),
        status=said if isinstance(said, Mapping) else {},
    )


def _some(problems: list[str]) -> tuple[str, ...]:
    """As many as a person reads, and how many more there are."""
    more = len(problems) - _MOST_PROBLEMS
    told = map(one_line, problems[:_MOST_PROBLEMS])
    return (*told, *([f"and {more} more problems"] if more > 0 else []))


class _FlawError(Exception):
    """A part of a policy that cannot be understood, in words for its author."""


def _target(given: object) -> float:
    try:
        return rule_options.number(given)
    except ValueError as error:
        raise _FlawError(
            f"target {shown(given)} is neither a number nor a quantity (3, 0.5, 1500m, 2Gi)"
        ) from error


def _terms(body: Mapping[str, Any], common: RuleOptions) -> RuleOptions:
    """The terms of a rule or strategy; `common` are those of the strategy around it."""
    try:
        return rule_options.parse_options(body, common)
    except ValueError as error:
        raise _FlawError(str(error)) from error


class _Reader:
    """Reads one strategy; what is wrong with a part of it goes to `problems`, what is wrong with it all is raised."""

    def __init__(self, policy: str, name: StrategyName, problems: list[str]) -> None:
        self._policy = policy
        self._name = name
        self._problems = problems
        self._label_texts = _MOST_LABEL_TEXTS
        """How many more may be read."""

    def read(self, body: object) -> Strategy:
        if not isinstance(body, Mapping) or not isinstance(body.get("rules"), list):
            raise _FlawError("it has no list of rules")
        if len(body["rules"]) > MOST_RULES:
            raise _FlawError(f"it has {len(body['rules'])} rules, more than {MOST_RULES}")
        logical = body.get("logicalOperator") or "anyOf"
        if logical not in ("anyOf", "allOf"):
            raise _FlawError(f"logicalOperator {shown(logical)} is neither anyOf nor allOf")
        if self._name is StrategyName.DESCHEDULE and (flaw := node_labels.key_flaw(self._policy)):
            raise _FlawError(f"the policy's name cannot be a label key: {flaw}")
        given, common = body["rules"], _terms(body, PLAIN)
        if self._name is StrategyName.SCHEDULEONMETRIC:
            given = given[:1]  # as TAS does
        rules = tuple(self._rules(given, common))
        if self._name is StrategyName.SCHEDULEONMETRIC:
            self._check_ranking(rules)
        if self._name is StrategyName.LABELING:
            rules = self._without_many(rules)
        return Strategy(rules, logical == "allOf", impossible=len(rules) < len(given))

    def _check_ranking(self, rules: tuple[Rule, ...]) -> None:
        if rules and rules[0].operator is Operator.EQUALS:
            self._problems.append(
                f"{self._name}: Equals ranks nothing, every node with a reading scores the same: "
                "use LessThan (lower is better) or GreaterThan"
            )
        if rules and rules[0].options != PLAIN:
            self._problems.append(
                f"{self._name}: for, clearAfter and whenMissing mean nothing to a ranking, and a "
                "node without a reading is always left out of it"
            )

    def _rules(self, given: list[object], common: RuleOptions) -> Iterator[Rule]:
        for number, body in enumerate(given, start=1):
            where = f"{self._name}: rule {number}"
            try:
                yield self._rule(where, body, common)
            except _FlawError as flaw:
                self._problems.append(f"{where}: {flaw}: left out")

    def _rule(self, where: str, body: object, common: RuleOptions) -> Rule:
        if not isinstance(body, Mapping):
            raise _FlawError("it is not an object")
        metric, operator = body.get("metricname"), body.get("operator")
        if not isinstance(metric, str) or not metric:
            raise _FlawError("it has no metricname")
        if not _METRIC.fullmatch(metric):
            raise _FlawError(
                f"metricname {shown(metric)} is no metric's name (at most 253 letters, digits, '_' and '-')"
            )
        if operator not in tuple(Operator):
            known = ", ".join(Operator)
            raise _FlawError(f"operator {shown(operator)} is not known (one of {known})")
        written, patience = body.get("target"), _terms(body, common)
        target = _target(written)
        if metric in derived.DERIVED_METRICS and self._name in PER_POD_STRATEGIES:
            patience = self._without_past(where, metric, patience)
        labeling = self._name is StrategyName.LABELING
        return Rule(
            metric,
            Operator(operator),
            target,
            self._labels(where, body.get("labels")) if labeling else (),
            patience,
            written if isinstance(written, str) else "",
        )

    def _without_past(self, where: str, metric: str, patience: RuleOptions) -> RuleOptions:
        """Time runs for a node. A verdict on a node and a pod has no past: the pod has just come."""
        if patience.timed:
            self._problems.append(
                f"{where}: for and clearAfter have no effect here: {metric} depends on the pod that is to be placed, "
                "so it is compared anew for each pod, and at once"
            )
        return replace(patience, for_seconds=0.0, clear_after=0.0)

    def _labels(self, where: str, given: object) -> tuple[Label, ...]:
        if not isinstance(given, list) or not given:
            self._problems.append(f"{where}: it names no labels, so it sets none")
            return ()
        if len(given) > self._label_texts:
            self._problems.append(
                f"{where}: it names {len(given)} labels, and {_MOST_LABEL_TEXTS} are read of a strategy: the rest is left out"
            )
            given = given[: self._label_texts]
        self._label_texts -= len(given)
        found: list[Label] = []
        for text in given:
            name, separator, value = text.partition("=") if isinstance(text, str) else ("", "", "")
            key = node_labels.label_key(self._policy, name)
            flaw = "write it as name=value" if not separator else None
            flaw = flaw or node_labels.key_flaw(key) or node_labels.value_flaw(value)
            if flaw:
                self._problems.append(f"{where}: label {shown(text)}: {flaw}: left out")
            else:
                found.append(Label(key, value))
        return tuple(found)

    def _without_many(self, rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
        """Drop label keys beyond what one policy may set, those named first stay."""
        keys = dict.fromkeys(label.key for rule in rules for label in rule.labels)
        if len(keys) <= MOST_LABELS:
            return rules
        self._problems.append(
            f"{self._name}: it names {len(keys)} labels, more than {MOST_LABELS}: the rest is left out"
        )
        kept = frozenset([*keys][:MOST_LABELS])
        return tuple(
            replace(rule, labels=tuple(label for label in rule.labels if label.key in kept))
            for rule in rules
        )
