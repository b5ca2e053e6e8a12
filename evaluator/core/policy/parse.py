"""Parses TASPolicy objects to typed rules, and collects problems as sentences.

Parsing never fails as a whole: invalid parts become problems in the policy's status, and the rest is enforced. The
resource is Telemetry Aware Scheduling's, `telemetry.intel.com/v1alpha1`.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from evaluator.core.model import node_labels
from evaluator.core.model.names import (
    ENFORCEMENT,
    PLACED_SINCE,
    POLICY_LABEL,
    RANKING,
    PolicyKey,
)
from evaluator.core.policy import annotations, hints
from evaluator.core.policy.annotations import Annotations
from evaluator.core.policy.strategies import PER_POD, STRATEGIES, StrategyName
from evaluator.core.policy.types import (
    PLAIN,
    Label,
    Operator,
    Policy,
    RankBy,
    Rule,
    RuleOptions,
    Strategy,
    WhenMissing,
    parse_options,
    parse_target,
)
from evaluator.core.policy.vocabulary import (
    ACTIONS,
    NO_FEATURES,
    ReadPolicyMetric,
    Vocabulary,
    parse_actions,
)
from evaluator.core.readings.node_conditions import PREFIX as CONDITION_PREFIX
from evaluator.core.readings.node_conditions import metric_of
from evaluator.core.readings.peer_metrics import (
    ALL_NODES,
    FEWEST,
    INSTANCE_TYPE,
    LARGEST,
    LEAST,
    PeerKind,
    PeerMetric,
)
from plimsoll import rfc3339
from plimsoll.text import one_line, shown

MOST_RULES = 100
"""Rules of one strategy. Each is evaluated on every node, and a long policy must not delay the others."""
MOST_LABELS = 50
"""Label keys that one policy may set: all of them end up on nodes, whose size is limited."""
MOST_BYTES = 256 << 10
"""Bytes of a spec's JSON. Four strategies of 100 rules with labels take a third of it."""
_MOST_STRATEGIES = 16
_MOST_LABEL_TEXTS = 1_000
"""Labels read from one strategy: rules may repeat a key, so there may be more labels than keys."""
_MOST_PROBLEMS = 20

_METRIC = re.compile(
    rf"(?P<base>[a-zA-Z0-9_-]{{1,253}})(:(?P<kind>{'|'.join(PeerKind)}))?", re.ASCII
)
_DOTTED = re.compile(
    r"(?=.{1,253}\Z)(node_condition_[\w./-]+|\w[\w-]*(\.[\w-]+)+(/[\w./-]+)?)", re.ASCII
)
"""The type of a condition, or a name as other monitoring systems write it."""
_PROMQL = re.compile(r"[(){}\[\]=~*/+<>%^:]|\s(-|and|or|unless)\s")
_WORDS = re.compile(r"[a-zA-Z0-9]+", re.ASCII)
_LONGEST_LABEL = 63
_LONGEST_EXAMPLE = 60
"""Characters of a name that a message suggests."""
PEERS = "plimsoll.io/peers"
"""The annotation that names the node label whose values are the groups of peers; `*`: all nodes are one."""
MIN_PEERS = "plimsoll.io/min-peers"
"""The annotation with the number of readings that a group needs."""


def declared_annotations(vocabulary: Vocabulary) -> frozenset[str]:
    """Return the keys of annotations that the core and these features read; others are not read."""
    return vocabulary.annotations | {ENFORCEMENT, PLACED_SINCE, RANKING, PEERS, MIN_PEERS, ACTIONS}


def parse(
    obj: Mapping[str, Any],
    *,
    observe: bool = False,
    vocabulary: Vocabulary = NO_FEATURES,
    before: Policy | None = None,
) -> Policy:
    """Return the Policy of a TASPolicy object. Its problems list what was left out, and why.

    `observe`: --observe is set. `vocabulary`: what the features of this evaluator provide. `before`: the policy of this
    name before an edit.
    """
    meta = obj["metadata"]
    key = PolicyKey(meta.get("namespace", ""), meta["name"])
    understood = _understood(obj, vocabulary, before)
    problems = [*understood.problems]
    strategies: dict[StrategyName, Strategy] = {}
    spec = obj.get("spec")
    groups = _peer_groups(understood.in_force)
    by_name = spec.get("strategies") if isinstance(spec, Mapping) else None
    if not isinstance(by_name, Mapping):
        problems.append("spec.strategies: missing")
        by_name = {}
    if len(by_name) > _MOST_STRATEGIES:
        problems.append(f"it names {len(by_name)} strategies: unknown ones are left out")
        by_name = {name: by_name[name] for name in STRATEGIES if name in by_name}
    for name, body in sorted(by_name.items()):
        if (strategy := STRATEGIES.get(name)) is None:
            known = ", ".join(STRATEGIES)
            problems.append(f"strategy {shown(name)} is unknown (one of {known}): left out")
            continue
        try:
            reader = _Reader(key, strategy, problems, vocabulary, groups, _created(meta))
            strategies[strategy] = reader.read(body)
        except _FlawError as flaw:
            problems.append(f"{name}: {flaw}: the strategy is not enforced")
    actions = parse_actions(
        key.name,
        understood.in_force,
        problems,
        vocabulary.actions,
        can_violate=any(name.row.determines_compliance for name in strategies),
    )
    problems += _unnameable(key.name, strategies)
    policy = replace(
        _policy(obj, understood, strategies, problems, observe=observe), actions=actions
    )
    warnings = [*understood.warnings, *hints.counter_warnings(policy).values()]
    return replace(policy, warnings=_limited(warnings, "warnings"))


def oversized(
    obj: Mapping[str, Any],
    size: int,
    *,
    observe: bool = False,
    vocabulary: Vocabulary = NO_FEATURES,
    before: Policy | None = None,
) -> Policy:
    """Return the policy for an object with a spec of `size` bytes, more than MOST_BYTES; nothing of it is enforced.

    Other arguments are those of `parse`.
    """
    known = _understood(obj, vocabulary, before)
    problem = f"spec: it has {size} bytes, more than {MOST_BYTES}: the policy is not enforced"
    return _policy(obj, known, {}, [problem, *known.problems], observe=observe)


def _understood(
    obj: Mapping[str, Any], vocabulary: Vocabulary, before: Policy | None
) -> Annotations:
    meta = obj["metadata"]
    past = annotations.past(before, meta.get("uid", ""), status_of(obj))
    return annotations.understand(meta, declared_annotations(vocabulary), past)


def _created(meta: Mapping[str, Any]) -> float:
    """Return when an object was created (Unix seconds); before all times if that is unknown, as of a manifest."""
    text = meta.get("creationTimestamp")
    at = rfc3339.parse_or_none(text) if isinstance(text, str) else None
    return -math.inf if at is None else at


def status_of(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the unvalidated status of a TASPolicy object; empty without one."""
    status = obj.get("status")
    return status if isinstance(status, Mapping) else {}


def _policy(
    obj: Mapping[str, Any],
    known: Annotations,
    strategies: Mapping[StrategyName, Strategy],
    problems: list[str],
    *,
    observe: bool,
) -> Policy:
    meta = obj["metadata"]
    observed_by = _observed_by(known.in_force, problems) or known.observed_by
    placed = _choice(known.in_force, PLACED_SINCE, ("count", "ignore"), problems)
    rank_by = RankBy(_choice(known.in_force, RANKING, tuple(RankBy), problems))
    return Policy(
        PolicyKey(meta.get("namespace", ""), meta["name"]),
        strategies,
        _limited(problems),
        uid=meta.get("uid", ""),
        generation=int(meta.get("generation") or 0),
        status=status_of(obj),
        rank_by=rank_by,
        counts_placed=placed == "count",
        observed_by="--observe" if observe else observed_by,
        annotations=known.in_force,
        misspelt=known.misspelt,
    )


def _observed_by(in_force: Mapping[str, Any], problems: list[str]) -> str:
    """Return why a policy is only observed. An unknown value counts as `observe`: that changes nothing in the cluster."""
    value = in_force.get(ENFORCEMENT, "enforce")
    if value not in ("enforce", "observe"):
        problems.insert(
            0,
            f"annotation {ENFORCEMENT}: {shown(value)} is neither enforce nor observe: the policy is only observed",
        )
    return "" if value == "enforce" else f"the annotation {ENFORCEMENT}"


def _choice(
    in_force: Mapping[str, Any], name: str, values: tuple[str, ...], problems: list[str]
) -> str:
    """Return the value of an annotation; the first of `values` if it is absent, or unknown, which is a problem."""
    value = in_force.get(name, values[0])
    if value in values:
        return str(value)
    problems.append(
        f"annotation {name}: {shown(value)} is unknown (one of {', '.join(values)}): {values[0]} is used"
    )
    return values[0]


def _unnameable(name: str, strategies: Iterable[StrategyName]) -> Iterator[str]:
    """Yield why no pod can name the policy, if it has strategies about its pods."""
    flaw = node_labels.value_flaw(name)
    if flaw and any(strategy in PER_POD for strategy in strategies):
        if len(name) > _LONGEST_LABEL:
            flaw = f"it has {len(name)} characters, and a label has at most {_LONGEST_LABEL}"
        yield (
            f"metadata.name: {flaw}: no pod can name the policy in its label {POLICY_LABEL}, so no pod is filtered or ranked by it"
        )


def _limited(problems: list[str], noun: str = "problems") -> tuple[str, ...]:
    """Return the first problems or warnings, and the number of the others."""
    more = len(problems) - _MOST_PROBLEMS
    shown_problems = map(one_line, problems[:_MOST_PROBLEMS])
    return (*shown_problems, *([f"and {more} more {noun}"] if more > 0 else []))


def _peer_groups(in_force: Mapping[str, Any]) -> "_PeerGroups":
    """Return the groups of peers that the annotations of a policy choose."""
    label, least = in_force.get(PEERS, INSTANCE_TYPE), in_force.get(MIN_PEERS, str(LEAST))
    flaw = None if label == ALL_NODES else node_labels.key_flaw(str(label))
    if flaw:
        flaw = f"annotation {PEERS}: {flaw}: write the key of a node label, or {ALL_NODES} for all nodes"
    text = str(least).strip()
    if not (text.isascii() and text.isdigit() and FEWEST <= int(text[:9]) <= LARGEST):
        flaw = f"annotation {MIN_PEERS}: {shown(least)} is not a number of nodes, {FEWEST} or more"
        return _PeerGroups(flaw=flaw)
    return _PeerGroups(str(label), int(text), flaw or "")


@dataclass(frozen=True, slots=True)
class _PeerGroups:
    """The groups of peers of a policy. `flaw`: why the annotations about them are invalid."""

    label: str = INSTANCE_TYPE
    least: int = LEAST
    flaw: str = ""


class _FlawError(Exception):
    """A part of a policy is invalid; the message is for its author."""


def _remedy(metric: str) -> str:
    """Return what to write instead of something that is no metric name."""
    base, colon, kind = metric.partition(":")
    needs = "a recording rule (docs/rules.md) or a name in --prometheusQueries"
    if _DOTTED.fullmatch(base) and kind in ("", *PeerKind):
        name = metric_of(base.removeprefix(CONDITION_PREFIX))
        if base.startswith(CONDITION_PREFIX):
            name, other = f"{name}{colon}{kind}", ""
        else:
            name = f"{name.removeprefix(CONDITION_PREFIX)}{colon}{kind}"
            other = f"; if no node exports that, it needs {needs}"
        return f"is not a metric name: write {name}, with _ for each other character{other}"
    words = "_".join(_WORDS.findall(metric[: 4 * _LONGEST_EXAMPLE]))[:_LONGEST_EXAMPLE]
    example = f", such as {words}" if words else ""
    way = f"write at most 253 letters, digits, '_' and '-'{example}"
    if _PROMQL.search(metric):
        way = f"PromQL needs {needs}: write that name{example}"
    peers = f"to compare nodes with their peers, end the name in :{' or :'.join(PeerKind)}"
    return f"is not a metric name: {way}; {peers}"


def _target(items: object) -> float:
    try:
        return parse_target(items)
    except ValueError as error:
        raise _FlawError(
            f"target {shown(items)} is neither a number nor a quantity (3, 0.5, 1500m, 2Gi)"
        ) from error


def _options(body: Mapping[str, Any], common: RuleOptions) -> RuleOptions:
    """Return the options of a rule or strategy; `common`: those of its strategy."""
    try:
        return parse_options(body, common)
    except ValueError as error:
        raise _FlawError(str(error)) from error


class _Reader:
    """Parses one strategy. Errors of a part are added to `problems`; errors of the whole are raised."""

    def __init__(
        self,
        policy: PolicyKey,
        name: StrategyName,
        problems: list[str],
        vocabulary: Vocabulary,
        groups: _PeerGroups,
        created: float,
    ) -> None:
        self._policy, self._namespace = policy.name, policy.namespace
        self._name = name
        self._row = name.row
        self._problems = problems
        self._vocabulary = vocabulary
        self._groups = groups
        self._created = created
        self._label_texts = _MOST_LABEL_TEXTS
        """Remaining number of labels that may be read."""

    def read(self, body: object) -> Strategy:
        if not isinstance(body, Mapping) or not isinstance(body.get("rules"), list):
            raise _FlawError("it has no list of rules")
        if len(body["rules"]) > MOST_RULES:
            raise _FlawError(f"it has {len(body['rules'])} rules, more than {MOST_RULES}")
        logical = body.get("logicalOperator") or "anyOf"
        if logical not in ("anyOf", "allOf"):
            raise _FlawError(f"logicalOperator {shown(logical)} is neither anyOf nor allOf")
        if self._row.marks and (flaw := node_labels.key_flaw(self._policy)):
            raise _FlawError(f"the policy's name cannot be a label key: {flaw}")
        items, common = body["rules"], _options(body, PLAIN)
        if self._row.ranks:
            items = items[:1]  # as TAS does
        rules = tuple(self._rules(items, common))
        if self._row.ranks:
            self._check_ranking(rules)
        if self._row.sets_labels:
            rules = self._within_label_limit(rules)
        return Strategy(rules, logical == "allOf", impossible=len(rules) < len(items))

    def _check_ranking(self, rules: tuple[Rule, ...]) -> None:
        if rules and rules[0].operator is Operator.EQUALS:
            self._problems.append(
                f"{self._name}: Equals ranks nothing, every node with a reading scores the same: "
                "use LessThan (lower is better) or GreaterThan"
            )
        if rules and rules[0].options != PLAIN:
            self._problems.append(
                f"{self._name}: for, clearAfter and whenMissing do not apply to a ranking; "
                "nodes without a reading are never ranked"
            )

    def _rules(self, items: list[object], common: RuleOptions) -> Iterator[Rule]:
        for number, body in enumerate(items, start=1):
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
        if (named := _METRIC.fullmatch(metric)) is None:
            raise _FlawError(f"metricname {shown(metric)} {_remedy(metric)}")
        if operator not in tuple(Operator):
            known = ", ".join(Operator)
            raise _FlawError(f"operator {shown(operator)} is unknown (one of {known})")
        written, options = body.get("target"), _options(body, common)
        target = _target(written)
        per_pod = named["base"] in self._vocabulary.derived
        of_policy = self._of_policy(named["base"])
        metric, visible = of_policy or (named["base"], named["base"])
        if named["kind"]:
            kind = PeerKind(named["kind"])
            metric, visible = self._peer_metric(metric, kind), self._peer_metric(visible, kind)
            options = self._ignoring_missing(where, metric, options)
        elif per_pod and self._row.per_pod:
            options = self._untimed(where, metric, options)
        return Rule(
            metric,
            Operator(operator),
            target,
            self._labels(where, body.get("labels")) if self._row.sets_labels else (),
            options,
            written if isinstance(written, str) else "",
            per_pod or of_policy is not None,
            per_pod,
            visible if visible != metric else "",
        )

    def _of_policy(self, metric: str) -> ReadPolicyMetric | None:
        try:
            return self._vocabulary.read(metric, self._namespace, self._created)
        except ValueError as error:
            raise _FlawError(str(error)) from error

    def _peer_metric(self, base: str, kind: PeerKind) -> str:
        """Return the name of a peer metric's column."""
        if self._groups.flaw:
            raise _FlawError(self._groups.flaw)
        return str(PeerMetric(base, kind, self._groups.label, self._groups.least))

    def _ignoring_missing(self, where: str, metric: str, options: RuleOptions) -> RuleOptions:
        """Return the options without whenMissing: violate, which would accuse every node of a small group."""
        if options.when_missing is WhenMissing.VIOLATE:
            self._problems.append(
                f"{where}: whenMissing: violate has no effect on {metric}: a group with too few readings accuses no node; "
                "write a rule on the metric itself"
            )
        return replace(options, when_missing=WhenMissing.IGNORE)

    def _untimed(self, where: str, metric: str, options: RuleOptions) -> RuleOptions:
        """Return the options without durations: per-pod results have no history."""
        if options.timed:
            self._problems.append(
                f"{where}: for and clearAfter have no effect here: {metric} depends on the pod being scheduled, "
                "so it is compared for each pod without delay"
            )
        return replace(options, for_seconds=0.0, clear_after=0.0)

    def _labels(self, where: str, items: object) -> tuple[Label, ...]:
        if not isinstance(items, list) or not items:
            self._problems.append(f"{where}: it names no labels, so it sets none")
            return ()
        if len(items) > self._label_texts:
            self._problems.append(
                f"{where}: it names {len(items)} labels, more than {_MOST_LABEL_TEXTS} in the strategy: the rest is left out"
            )
            items = items[: self._label_texts]
        self._label_texts -= len(items)
        found: list[Label] = []
        for text in items:
            name, separator, value = text.partition("=") if isinstance(text, str) else ("", "", "")
            key = node_labels.label_key(self._policy, name)
            flaw = "write it as name=value" if not separator else None
            flaw = flaw or node_labels.key_flaw(key) or node_labels.value_flaw(value)
            if flaw:
                self._problems.append(f"{where}: label {shown(text)}: {flaw}: left out")
            else:
                found.append(Label(key, value))
        return tuple(found)

    def _within_label_limit(self, rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
        """Drop label keys over the limit; keys named first stay."""
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
