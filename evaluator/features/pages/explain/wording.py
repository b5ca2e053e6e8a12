"""How pages word a reading, a rule, a strategy, the status of a policy, and the groups that a rule on peers compares nodes in."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from msgspec import UNSET, structs

from evaluator.core.model.node_index import Mask
from evaluator.core.page_fields import Maybe
from evaluator.core.policy import types
from evaluator.core.policy.durations import StrategyState
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Operator, Policy, Rule, WhenMissing
from evaluator.core.readings.column import NEVER, Column
from evaluator.core.readings.peers import Peers
from evaluator.features.pages.explain import states
from evaluator.features.pages.explain.states import Codes
from evaluator.features.pages.kinds import (
    ComparedReading,
    PeerGroup,
    PolicyStatus,
    Reading,
    RulePeers,
    ShownGroup,
    StatusCondition,
)
from plimsoll.durations import format_duration
from plimsoll.floats import not_finite
from plimsoll.quantity import json_number, number, readable
from plimsoll.steps import Steps

_COMPARISONS = {
    Operator.LESS_THAN: "is less than",
    Operator.GREATER_THAN: "is greater than",
    Operator.EQUALS: "equals",
}
_ORDERS = {
    Operator.LESS_THAN: "is lowest",
    Operator.GREATER_THAN: "is highest",
    Operator.EQUALS: "has any value",
}
_MOST_CONDITIONS = 20


class ShownReading(NamedTuple):
    """One node's reading."""

    value: float
    samples: int
    at: float
    fresh: bool
    unread: bool
    unreported: bool
    usable: bool
    never_had: bool
    """Whether the agent looked for the metric, and the node has not had it since the agent started."""
    source: str = ""
    """Its source, if there are several."""
    lacking: str = ""
    """Why a peer metric has no value although its base has."""
    group: PeerGroup | None = None
    """Of a peer metric, the group that the node is compared with."""
    compared: float = math.nan
    """Of a peer metric, the reading of its base."""

    def as_json(self, now: float, cause: str = "") -> Reading:
        """Return the reading as JSON; NaN and infinities become strings. `cause`: as `CauseOf` returns it."""
        value = self.value if math.isfinite(self.value) else not_finite(self.value)
        known = self.at != NEVER
        return Reading(
            value=value if self.samples == 1 else None,
            age_seconds=round(now - self.at, 3) if known else None,
            state=self.state,
            source=self.source if self.source and known else UNSET,
            peers=self._peers(),
            cause=cause if cause and self.usable else UNSET,
        )

    def _peers(self) -> Maybe[ComparedReading]:
        if self.group is None:
            return UNSET
        return ComparedReading(**structs.asdict(self.group), reading=json_number(self.compared))

    @property
    def state(self) -> str:
        """Whether the reading is usable, in words."""
        if self.unreported:
            return "awaited: no first report yet"
        if self.unread:
            known = "the last reading still counts" if self.fresh else "nothing is known"
            return f"unread: its source cannot be read, {known}"
        if not self.fresh:
            never = self.at == NEVER
            return "missing: never reported" if never else "stale: too old to rely on"
        match self.samples:
            case 0:
                if self.never_had:
                    return "absent: the node never had this metric since its agent started"
                return "absent: the node does not have this metric"
            case 1:
                if self.lacking:
                    return f"missing: {self.lacking}"
                return "fresh" if self.usable else "fresh, but not a number"
            case _:
                return f"ambiguous: {self.samples} series, no single value (`problems` says what to do)"


def _among_peers(peers: Peers) -> Iterator[list[Any]]:
    """Yield, for each node, why it has no peer metric, its group, and its reading."""
    texts, described = peers.lacking(), [*described_groups(peers)]
    groups = [*zip(peers.grouping.codes.tolist(), peers.usable.tolist(), strict=True)]
    yield [texts[group] if usable else "" for group, usable in groups]
    yield [described[group] if usable else None for group, usable in groups]
    yield peers.readings.tolist()


def readings_of(column: Column) -> Iterator[ShownReading]:
    """Yield the readings of a column, node by node."""
    parts = (
        *(column.values, column.samples, column.at),
        *(column.fresh, column.unread, column.unreported, column.usable),
    )
    lists = [part.tolist() for part in parts]
    never_had = column.never_had
    lists.append([False] * len(column.values) if never_had is None else never_had.tolist())
    origin, peers = column.origin, column.peers
    if origin is not None:
        lists.append([origin.names[position] for position in origin.numbers.tolist()])
    if peers is not None:
        if origin is None:
            lists.append([""] * len(column.values))
        lists += _among_peers(peers)
    return map(ShownReading, *lists)


def rule(rule: Rule) -> str:
    """Return a comparison with its durations as a sentence without subject; a bare number also with its unit."""
    target = rule.written or types.formatted(rule.target)
    unit = readable(rule.metric, rule.target)
    if target[-1:].isdigit() and unit != number(rule.target):
        target = f"{target} ({unit})"
    parts = [f"{rule.metric} {_COMPARISONS[rule.operator]} {target}"]
    options = rule.options
    if options.for_seconds:
        parts.append(f"for {format_duration(options.for_seconds)}")
    if options.clear_after:
        parts.append(f"until it did not for {format_duration(options.clear_after)}")
    if options.when_missing is WhenMissing.VIOLATE:
        parts.append("or has no usable reading")
    return ", ".join(parts)


def strategy(policy: Policy, name: StrategyName) -> str:
    """Return what a strategy of a policy does."""
    rules, row = policy.strategies[name].rules, name.row
    if row.ranks:
        return f"{row.explained} {rules[0].metric} {_ORDERS[rules[0].operator]}" if rules else ""
    if row.sets_labels:
        return row.explained
    joined = (
        "all of these rules hold" if policy.strategies[name].all_of else "any of these rules holds"
    )
    if len(rules) == 1:
        joined = "this rule holds"
    return f"{row.explained} {joined}"


def status(status: Mapping[str, Any]) -> PolicyStatus:
    """Return compliance, message and conditions of a status in the cluster.

    Users can edit it: fields of other types are left out.
    """
    conditions = status.get("conditions")
    listed = conditions[:_MOST_CONDITIONS] if isinstance(conditions, list) else []
    return PolicyStatus(
        compliance=_text(status.get("compliance")),
        message=_text(status.get("message")),
        conditions=[
            StatusCondition(
                type=_text(condition.get("type")),
                status=_text(condition.get("status")),
                reason=_text(condition.get("reason")),
                message=_text(condition.get("message")),
                last_transition_time=_text(condition.get("lastTransitionTime")),
            )
            for condition in listed
            if isinstance(condition, dict)
        ],
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


_GROUPS = 10
"""Groups shown for a rule; the others are counted. Those with accused nodes come first, then the largest."""


def groups_of_rule(
    state: StrategyState, number: int, table: MetricTable, codes: Codes
) -> Steps[Maybe[RulePeers]]:
    """Return the groups of a rule on peers, each with a strip of its nodes by the rule's metric; `codes`: states of nodes."""
    rule = state.rules[number]
    column = table.columns[rule.metric]
    peers = column.peers
    if peers is None or rule.shown:
        return UNSET
    found = [*described_groups(peers)]
    shown = _shown(peers, state.found.per_rule[:, number] | _held_back(state, number, table))
    yield
    groups = []
    for group in shown[:_GROUPS]:
        positions = (peers.usable & (peers.grouping.codes == group)).nonzero()[0]
        order = np.argsort(column.values[positions], kind="stable")
        own = codes[positions[order]]
        parts = structs.asdict(found[group])
        groups.append(ShownGroup(**parts, states=states.counts(own), strip=states.strip(own)))
        yield
    return RulePeers(
        by=peers.metric.groups,
        least=peers.metric.least,
        groups=groups,
        groups_more=len(shown) - _GROUPS if len(shown) > _GROUPS else UNSET,
        without_peers=int(np.count_nonzero(peers.alone)),
    )


def _held_back(state: StrategyState, number: int, table: MetricTable) -> Mask:
    held_back = state.held_back.get(number)
    return table.nodes.none if held_back is None else held_back.mask


def _shown(peers: Peers, differing: Mask) -> list[int]:
    """Return the numbers of the groups in the order of a page."""
    sizes = peers.found.sizes
    found = np.bincount(peers.grouping.codes[differing], minlength=len(sizes)) > 0
    order: list[int] = np.lexsort((-sizes, ~found)).tolist()
    return [group for group in order if sizes[group]]


def described_groups(peers: Peers) -> Iterator[PeerGroup]:
    """Yield each group: its name, the nodes with a reading, and their median and scale, null if there are too few."""
    parts = (peers.found.sizes, peers.found.medians, peers.found.scales, peers.most)
    rows = zip(peers.grouping.names, *(part.tolist() for part in parts), strict=True)
    for name, size, median, scale, most in rows:
        yield PeerGroup(
            metric=peers.metric.base,
            group=name,
            nodes=size,
            median=json_number(median),
            scale=json_number(scale),
            accused_at_most=most,
        )
