"""Evaluates rules over columns of readings: which nodes violate which rule, by their reading or by the lack of one.

Terms for absent readings, each a mask over the nodes:

| term | meaning |
|---|---|
| `unusable` | no reading that a rule can compare: stale, absent, NaN, or several series |
| `unreported` | the node has not reported this metric yet, and its first report is still expected |
| `missing` | `unusable` and not `unreported`: `whenMissing` applies |
| `absent` | the agent looked for the metric, the node has not had it since the agent started, and some node has it |
| `unknown` | `unusable` and not `absent`: compliance is unknown, unless a missing reading violates |
| `never_reported` | there never was a reading, whether or not one is still expected |
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, assert_never

import numpy as np
import numpy.ma

from evaluator.core.model.arrays import Bools, Counts, Floats
from evaluator.core.model.node_index import NodeIndex, NodeMask, Positions, alike, union
from evaluator.core.policy import hints
from evaluator.core.policy.reductions import Use
from evaluator.core.policy.types import Operator, Rule, Strategy, WhenMissing
from evaluator.core.policy.violations import Violations
from evaluator.core.readings.column import NEVER, Column
from evaluator.core.readings.peers import Peers
from plimsoll.text import counted

_FARTHER = {Operator.GREATER_THAN: 1.0, Operator.LESS_THAN: -1.0, Operator.EQUALS: 0.0}
"""By operator, the sign of values that are farther from the peers; nodes with equal values are equally far."""


class Presence(NamedTuple):
    """On how many nodes a metric exists, is absent, and may still be reported or cannot be read.

    The last two are counted only if no node has a usable reading.
    """

    having: int
    lacking: int
    pending: int

    @property
    def not_found(self) -> bool:
        """Whether nodes reported without it, and none has or may still report it."""
        return bool(self.lacking) and not self.having and not self.pending


_MOST_COMPARED = 100
"""Results of one metric that are kept: targets of rules that were edited since are among them."""


class Compared(NamedTuple):
    """The result of a comparison, two masks (nodes,): where it counts, and where it is true but too many peers differ."""

    met: Bools
    held_back: Bools


class MetricColumn:
    """The readings of one metric, prepared for comparison; computed once and shared by all rules.

    `values` is NaN on `unusable` nodes. `any_unreported`: some node has not reported the metric yet. `compared`: results by
    operator and target; those of unchanged peers are kept from one decision to the next.
    """

    usable: Bools
    unusable: NodeMask
    absent: NodeMask | None
    """None if there are no such nodes."""
    unknown: NodeMask
    any_unreported: bool

    def __init__(
        self,
        metric: str,
        readings: Column,
        nodes: NodeIndex,
        before: "MetricColumn | None" = None,
        alike: "MetricColumn | None" = None,
        orders: dict[Operator, Positions] | None = None,
    ) -> None:
        """`before`: of the previous decision, whose equal parts are shared. `alike`: a column with readings that can be
        compared on the same nodes. `orders`: by operator, what sorts similar values.
        """
        self.metric = metric
        self._nodes = nodes
        self.readings = readings
        if alike is not None:
            self.usable, self.unusable = alike.usable, alike.unusable
            self.absent, self.unknown = alike.absent, alike.unknown
            self.any_unreported = alike.any_unreported
        else:
            self.usable = readings.usable
            self.unusable = NodeMask(nodes, ~self.usable).reuse(before.unusable if before else None)
            self.any_unreported = bool(readings.unreported.any())
            self._set_absent(before)
        self._orders = {} if orders is None else orders
        self.compared: dict[tuple[Operator, float], Compared] = {}
        same_nodes = before is not None and before.unusable.nodes is nodes
        self._earlier = before.compared if before is not None and same_nodes else {}
        unchanged = before and readings.peers and before.readings.peers is readings.peers
        if before and unchanged and len(before.compared) <= _MOST_COMPARED:
            self.compared = before.compared
        self._classes: dict[Operator, Positions] = {}

    def _set_absent(self, before: "MetricColumn | None") -> None:
        """Set `absent` and `unknown`; those of the previous decision if they are equal."""
        never_had = self.readings.never_had
        if never_had is None or not never_had.any() or self.presence.not_found:
            self.absent, self.unknown = None, self.unusable
            return
        lacking = self.unusable.mask & ~never_had
        self.absent = NodeMask(self._nodes, never_had).reuse(before.absent if before else None)
        self.unknown = NodeMask(self._nodes, lacking).reuse(before.unknown if before else None)

    def moved(self, added: Floats) -> "MetricColumn":
        """Return the column with these finite amounts added to the readings, shape (nodes,); not for peer metrics."""
        readings = self.readings._replace(measured=self.readings.measured + added)
        return MetricColumn(self.metric, readings, self._nodes, alike=self, orders=self._orders)

    @cached_property
    def values(self) -> Floats:
        """Values, shape (nodes,); NaN where unusable."""
        if not self.unusable.count:
            return self.readings.values
        return np.where(self.usable, self.readings.values, np.nan)

    def matches(self, rule: Rule) -> Bools:
        """Return where the comparison of a rule is true, shape (nodes,); read-only.

        Doubles are compared strictly: exact for integers up to 2^53. NaN, and so an unusable reading, compares false.
        """
        return self._result(rule).met

    def _result(self, rule: Rule) -> Compared:
        key = (rule.operator, rule.target)
        found = self.compared.get(key)
        if found is None:
            if self.readings.peers is None:
                found = Compared(_compared(self.values, *key), self.unusable.nodes.none)
            else:
                found = self._accused(self.readings.peers, *key)
            known = self._earlier.get(key)
            if known is not None and all(map(alike, known, found)):
                found = known
            self.compared[key] = found
        return found

    def changes(self, before: "MetricColumn") -> Iterator[object]:
        """Yield which of `Policy.inputs` differ from an earlier column: the metric itself if other readings are missing, or may
        be, and comparisons.
        """
        if not self._lacks_as(before):
            yield self.metric
        for key, found in self.compared.items():
            if found is not before.compared.get(key):
                yield (self.metric, *key)

    def _lacks_as(self, before: "MetricColumn") -> bool:
        """Return whether the same readings are missing as before, and for the same reason, if that is cheap to see."""
        now, then = self.readings, before.readings
        pending = self.any_unreported or before.any_unreported
        if pending or self.unusable is not before.unusable or self.absent is not before.absent:
            return False
        if not self.unusable.count:
            return True
        pairs = (now.fresh, then.fresh), (now.unread, then.unread), (now.samples, then.samples)
        same = now.fault == then.fault and all(alike(*pair) for pair in pairs)
        return same and not self.ambiguous and alike(self.never_reported, before.never_reported)

    def matches_with(self, rule: Rule, added: Floats) -> Positions:
        """Return the nodes that match a rule with these amounts, shape (nodes,), added to their readings.

        Nodes to which nothing is added may be left out: few of many change between two requests of kube-scheduler.
        """
        where = added.nonzero()[0]
        values = self.values[where] + added[where]
        return where[_compared(values, rule.operator, rule.target)]

    def _accused(self, peers: Peers, operator: Operator, target: float) -> Compared:
        """Compare a peer metric: it counts on a limited share of each group."""
        none = self.unusable.nodes.none
        differing = peers.beyond(target, _FARTHER[operator])
        if not differing.size:
            return Compared(none, none)
        met = np.zeros(len(self.usable), bool)
        met[differing] = True
        accused = self.at_most(operator, met, none)
        return Compared(accused, none if accused is met else met & ~accused)

    def at_most(self, operator: Operator, where: Bools, first: Bools) -> Bools:
        """Return the nodes in `where` that a peer metric may accuse at once: those of `first`, then the farthest."""
        peers = self.readings.peers
        if peers is None:
            return where
        return peers.capped(where, first, _FARTHER[operator])

    def held_back(self, rule: Rule) -> Bools:
        """Return where a comparison of a peer metric is true but does not count: too many of the group differ."""
        return self._result(rule).held_back

    def classes(self, operator: Operator) -> Positions:
        """Return the rank class of each node, 0 for the best; equal readings share a class. Read-only.

        Shape (nodes + 1,): -1 without a reading, and -1 at the end, where position -1 (unknown node) points.
        """
        classes = self._classes.get(operator)
        if classes is None:
            some = self.unusable.count > 0
            costs = self.costs(operator)
            if some:
                costs = costs[self.usable]
            order = self._orders.get(operator)
            # Of a nearly sorted array, a stable sort takes a quarter of the time of the other.
            order = costs.argsort() if order is None else order[costs[order].argsort(kind="stable")]
            self._orders[operator] = order
            classes = self._classes[operator] = np.full(len(self.usable) + 1, -1, dtype=np.intp)
            classes[:-1][self.usable if some else slice(None)] = _rank_classes(costs, order)
        return classes

    def costs(self, operator: Operator) -> Floats:
        """Return a number per node of which a lower one is better, shape (nodes,); NaN without a reading."""
        match operator:
            case Operator.LESS_THAN:
                return self.values
            case Operator.GREATER_THAN:
                return -self.values
            case Operator.EQUALS:  # no order: all nodes are equal
                return np.where(self.usable, 0.0, np.nan)
            case _:
                assert_never(operator)

    @cached_property
    def _several(self) -> Counts | None:
        """The number of series where there are several, else 0; None if no node has several. Such a reading has no value."""
        several = (self.readings.samples > 1) & self.readings.fresh
        return np.where(several, self.readings.samples, 0) if several.any() else None

    @property
    def ambiguous(self) -> bool:
        """Whether some node has several series of this metric."""
        return self._several is not None

    def ambiguity(self, uses: tuple[Use, ...]) -> str:
        """Return the problem text for an ambiguous metric, with counts and a hint that fits the uses."""
        samples, nodes = self._several, self.unusable.nodes
        assert samples is not None
        worst = int(samples.argmax())
        return (
            f"metric {self.metric} has no single value on {np.count_nonzero(samples)} of {counted(len(nodes), 'node')}: "
            f"{samples[worst]} series on {nodes[worst]}; it counts as missing there: {self._hint(uses)}"
        )

    def stable_problem(self, uses: tuple[Use, ...]) -> str:
        """Return the same problem without counts, so that the text is constant (for Events)."""
        return f"metric {self.metric} has several series and so no single value: {self._hint(uses)}"

    def _hint(self, uses: tuple[Use, ...]) -> str:
        assert self._several is not None
        source = self.readings.source_at(int(self._several.argmax()))
        return hints.aggregation_hint(self.metric, source, uses)

    @cached_property
    def fault(self) -> str:
        """Why no source has the metric; empty if some node has it, may still report it, or no source gave a reason."""
        found = self.readings
        if not found.fault or (found.unreported | (found.fresh & (found.samples > 0))).any():
            return ""
        return f"no source has metric {self.metric} ({found.fault})"

    @cached_property
    def presence(self) -> Presence:
        """On how many nodes the metric exists; a stale reading counts as existing."""
        found = self.readings
        if usable := len(self.usable) - self.unusable.count:
            return Presence(usable, 0, 0)
        having = found.samples > 0
        pending = ~having & (found.unreported | found.unread)
        lacking = ~having & ~pending & found.fresh
        return Presence(*(int(np.count_nonzero(mask)) for mask in (having, lacking, pending)))

    @cached_property
    def never_reported(self) -> Bools:
        """Nodes without any reading so far, shape (nodes,)."""
        never: Bools = self.readings.at == NEVER
        return never if never.any() else self.unusable.nodes.none

    @cached_property
    def missing(self) -> Bools:
        """Nodes whose reading counts as missing, shape (nodes,)."""
        return (
            self.unusable.mask & ~self.readings.unreported
            if self.any_unreported
            else self.unusable.mask
        )


def _compared(values: Floats, operator: Operator, target: float) -> Bools:
    met: Bools
    match operator:
        case Operator.LESS_THAN:
            met = values < target
        case Operator.GREATER_THAN:
            met = values > target
        case Operator.EQUALS:
            met = values == target
        case _:
            assert_never(operator)
    return met


def _rank_classes(costs: Floats, order: Positions) -> Positions:
    """Return the class of each cost, 0 for the lowest: the inverse of `np.unique`, which takes half as long again.

    `order` sorts the costs.
    """
    ordered = costs[order]
    higher = np.zeros(len(costs), np.intp)
    np.not_equal(ordered[1:], ordered[:-1], out=higher[1:])
    classes = np.empty(len(costs), np.intp)
    classes[order] = higher.cumsum()
    return classes


@dataclass(frozen=True)
class MetricTable:
    """The nodes of the cluster in a fixed order, and a column of readings for each metric that policies use."""

    nodes: NodeIndex
    columns: Mapping[str, Column]
    derived: frozenset[str] = frozenset()
    """The metrics among these that features compute."""
    prepared: dict[str, MetricColumn] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """Columns prepared for comparison, by metric."""
    _unreported: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
    """The metrics among these that some node has not reported."""

    def __post_init__(self) -> None:
        if type(self.nodes) is not NodeIndex:
            object.__setattr__(self, "nodes", NodeIndex(self.nodes))

    def prepare(self, metric: str, before: "MetricTable | None" = None) -> MetricColumn:
        """Prepare a column; equal parts are shared with the table of the previous decision."""
        readings, known = self.columns[metric], before.prepared.get(metric) if before else None
        peers = readings.peers
        every = peers is not None and peers.comparable is peers.usable
        base = self.prepared.get(peers.metric.base) if peers is not None and every else None
        column = self.prepared[metric] = MetricColumn(metric, readings, self.nodes, known, base)
        if column.any_unreported:
            self._unreported.append(metric)
        return column

    def column(self, metric: str) -> MetricColumn:
        """Return the prepared column of a metric."""
        column = self.prepared.get(metric)
        return self.prepare(metric) if column is None else column

    def with_columns(self, columns: Mapping[str, MetricColumn]) -> "MetricTable":
        """Return the table with other columns of some metrics."""
        table = MetricTable(self.nodes, self.columns, self.derived)
        table.prepared.update({**self.prepared, **columns})
        table._unreported.extend(self._unreported)
        return table

    def unreported(self, metrics: Iterable[str]) -> Bools:
        """Return the nodes that have not reported some of these metrics, shape (nodes,); the object `nodes.none` if none."""
        if not self._unreported and len(self.prepared) == len(self.columns):
            return self.nodes.none
        columns = [self.column(metric) for metric in metrics]
        unreported = [column.readings.unreported for column in columns if column.any_unreported]
        return union(unreported, self.nodes)


def match_rules(strategy: Strategy, table: MetricTable) -> tuple[Bools, Bools]:
    """Return two read-only masks (nodes, rules): violated by the reading, violated by a missing reading."""
    nodes = table.nodes
    by_reading = stack_rules(
        [table.column(rule.metric).matches(rule) for rule in strategy.rules], nodes
    )
    strict = [rule.options.when_missing is WhenMissing.VIOLATE for rule in strategy.rules]
    if True not in strict:
        return by_reading, nodes.no_rules(len(strict))
    pairs = zip(strategy.rules, strict, strict=True)
    missing_masks = [
        table.column(rule.metric).missing if violate else nodes.none for rule, violate in pairs
    ]
    return by_reading, stack_rules(missing_masks, nodes)


def stack_rules(masks: Sequence[Bools], nodes: NodeIndex) -> Bools:
    """Stack one mask (nodes,) per rule to (nodes, rules); each rule's column is contiguous."""
    if len(masks) == 1:
        return masks[0].reshape(-1, 1)
    if not masks:
        return np.zeros((len(nodes), 0), dtype=bool)
    return np.concatenate(masks).reshape(len(masks), -1).T


def combine(strategy: Strategy, per_rule: Bools, missing: Bools, from_label: Bools) -> Violations:
    """Combine rules: any violated rule violates the strategy; with `all_of`, all of them must be violated."""
    violated: Bools
    if strategy.all_of and (strategy.impossible or not strategy.rules):
        violated = np.zeros(len(per_rule), dtype=bool)
    elif len(strategy.rules) == 1:
        violated = per_rule[:, 0]
    else:
        violated = np.all(per_rule, axis=1) if strategy.all_of else np.any(per_rule, axis=1)
    return Violations(violated, per_rule, missing, from_label)
