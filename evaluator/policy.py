"""A TASPolicy object turned into typed rules, with everything that is wrong with it said in words.

Reading never fails as a whole: what cannot be understood becomes a problem in the policy's status, and the rest works.
The resource is Telemetry Aware Scheduling's, `telemetry.intel.com/v1alpha1`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from evaluator import labels

VIOLATING = "violating"

_TARGETS = range(-(2**63), 2**63)


class PolicyKey(NamedTuple):
    """Where a policy lives."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Operator(StrEnum):
    """How a reading is compared with a rule's target; all are strict."""

    LESS_THAN = "LessThan"
    GREATER_THAN = "GreaterThan"
    EQUALS = "Equals"


class StrategyName(StrEnum):
    """The four parts a policy can have."""

    DONTSCHEDULE = "dontschedule"
    SCHEDULEONMETRIC = "scheduleonmetric"
    DESCHEDULE = "deschedule"
    LABELING = "labeling"


@dataclass(frozen=True, slots=True)
class Label:
    """A node label that a labeling rule asks for, with its full key."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One comparison: the rule is broken where the node's reading compares true with the target."""

    metric: str
    operator: Operator
    target: int
    labels: tuple[Label, ...] = ()

    def __str__(self) -> str:
        return f"{self.metric} {self.operator} {self.target}"


@dataclass(frozen=True, slots=True)
class Strategy:
    """Rules that are enforced together.

    `all_of` asks for every rule to be broken at once. `impossible` says that one of those could not be understood, so
    that "all" can never be: dropping the rule instead would make the strategy fire on less than its author asked for.
    """

    rules: tuple[Rule, ...]
    all_of: bool = False
    impossible: bool = False


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy as the evaluator works with it; only strategies that can be enforced are in it."""

    key: PolicyKey
    strategies: Mapping[StrategyName, Strategy] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    uid: str = ""
    generation: int = 0

    @property
    def metrics(self) -> frozenset[str]:
        """The names of all metrics the policy looks at."""
        return frozenset(
            rule.metric for strategy in self.strategies.values() for rule in strategy.rules
        )


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
    for name, body in sorted(named.items()):
        if name not in tuple(StrategyName):
            known = ", ".join(StrategyName)
            problems.append(f"strategy {_shown(name)} is not known (one of {known}): left out")
            continue
        try:
            strategies[StrategyName(name)] = _Reader(key.name, StrategyName(name), problems).read(
                body
            )
        except _FlawError as flaw:
            problems.append(f"{name}: {flaw}: the strategy is not enforced")
    return Policy(
        key, strategies, tuple(problems), meta.get("uid", ""), int(meta.get("generation") or 0)
    )


def _shown(value: object) -> str:
    """A value as its author wrote it, but no longer than a person reads."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


class _FlawError(Exception):
    """A part of a policy that cannot be understood, in words for its author."""


class _Reader:
    """Reads one strategy; what is wrong with a part of it goes to `problems`, what is wrong with it all is raised."""

    def __init__(self, policy: str, name: StrategyName, problems: list[str]) -> None:
        self._policy = policy
        self._name = name
        self._problems = problems

    def read(self, body: object) -> Strategy:
        if not isinstance(body, Mapping) or not isinstance(body.get("rules"), list):
            raise _FlawError("it has no list of rules")
        logical = body.get("logicalOperator") or "anyOf"
        if logical not in ("anyOf", "allOf"):
            raise _FlawError(f"logicalOperator {_shown(logical)} is neither anyOf nor allOf")
        if self._name is StrategyName.DESCHEDULE and (flaw := labels.key_flaw(self._policy)):
            raise _FlawError(f"the policy's name cannot be a label key: {flaw}")
        given = body["rules"]
        if self._name is StrategyName.SCHEDULEONMETRIC:
            given = given[:1]  # as TAS does
        rules = tuple(self._rules(given))
        if self._name is StrategyName.SCHEDULEONMETRIC:
            self._check_ranking(rules)
        if self._name is StrategyName.LABELING:
            rules = self._without_clashes(rules)
        return Strategy(rules, logical == "allOf", impossible=len(rules) < len(given))

    def _check_ranking(self, rules: tuple[Rule, ...]) -> None:
        if rules and rules[0].operator is Operator.EQUALS:
            self._problems.append(
                f"{self._name}: Equals ranks nothing, every node with a reading scores the same: "
                "use LessThan (lower is better) or GreaterThan"
            )

    def _rules(self, given: list[object]) -> Iterator[Rule]:
        for number, body in enumerate(given, start=1):
            where = f"{self._name}: rule {number}"
            try:
                yield self._rule(where, body)
            except _FlawError as flaw:
                self._problems.append(f"{where}: {flaw}: left out")

    def _rule(self, where: str, body: object) -> Rule:
        if not isinstance(body, Mapping):
            raise _FlawError("it is not an object")
        metric, operator, target = body.get("metricname"), body.get("operator"), body.get("target")
        if not isinstance(metric, str) or not metric:
            raise _FlawError("it has no metricname")
        if operator not in tuple(Operator):
            known = ", ".join(Operator)
            raise _FlawError(f"operator {_shown(operator)} is not known (one of {known})")
        target = 0 if target is None else target
        if not isinstance(target, int) or isinstance(target, bool) or target not in _TARGETS:
            raise _FlawError(f"target {_shown(target)} is not an integer of 64 bits")
        labeling = self._name is StrategyName.LABELING
        wanted = self._labels(where, body.get("labels")) if labeling else ()
        return Rule(metric, Operator(operator), target, wanted)

    def _labels(self, where: str, given: object) -> tuple[Label, ...]:
        if not isinstance(given, list) or not given:
            self._problems.append(f"{where}: it names no labels, so it sets none")
            return ()
        found: list[Label] = []
        for text in given:
            name, separator, value = str(text).partition("=")
            key = labels.wanted_key(self._policy, name)
            flaw = "write it as name=value" if not separator else None
            flaw = flaw or labels.key_flaw(key) or labels.value_flaw(value)
            if flaw:
                self._problems.append(f"{where}: label {_shown(text)}: {flaw}: left out")
            else:
                found.append(Label(key, value))
        return tuple(found)

    def _without_clashes(self, rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
        """Drop label keys that rules of different operators name: neither "highest" nor "lowest" wins such a clash."""
        operators: dict[str, set[Operator]] = {}
        for rule in rules:
            for label in rule.labels:
                operators.setdefault(label.key, set()).add(rule.operator)
        clashing = {key for key, used in operators.items() if len(used) > 1}
        for key in sorted(clashing):
            used = ", ".join(sorted(operators[key]))
            self._problems.append(
                f"{self._name}: label {key} is named by rules with different operators ({used}): left out"
            )
        return tuple(
            Rule(
                rule.metric,
                rule.operator,
                rule.target,
                tuple(label for label in rule.labels if label.key not in clashing),
            )
            for rule in rules
        )
