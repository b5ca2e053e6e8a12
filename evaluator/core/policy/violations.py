"""Where strategies are violated, and the texts of it, as kube-scheduler shows them in FailedNodes and the pod's condition.

The texts are mappings over masks: names and texts are built on first access, and cached.
"""

from collections.abc import ItemsView, Iterator, KeysView, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from evaluator.core.model.arrays import Bools
from evaluator.core.model.node_index import Mask, NodeIndex, NodeMask, Reindex, alike
from evaluator.core.policy.types import Rule, Strategy

_FEW = 0.25
"""Share of changed nodes up to which a copy of the earlier dict is updated; above, a new one is as fast."""


@dataclass(frozen=True)
class Violations:
    """Where a strategy is violated, shape (nodes,), and by which rules, shape (nodes, rules). Read-only.

    `missing` and `from_previous_leader`, both (nodes, rules), are the parts of `per_rule` that hold because a reading
    is missing, or only because a label written before this process started says so.
    """

    violated: Bools
    per_rule: Bools
    missing: Bools
    from_previous_leader: Bools

    def moved(self, reindex: Reindex) -> "Violations":
        """Return the result over the current nodes; new ones violate nothing."""
        by_rule = (
            np.stack([reindex.mask(rule) for rule in table.T]).T
            if table.shape[1]
            else np.zeros((len(violated), 0), bool)
            for violated in (reindex.mask(self.violated),)
            for table in (self.per_rule, self.missing, self.from_previous_leader)
        )
        return Violations(reindex.mask(self.violated), *by_rule)

    def same(self, other: "Violations") -> bool:
        """Whether another result for the same strategy and nodes is equal; `violated` follows from the rest."""
        return (
            alike(self.per_rule, other.per_rule)
            and alike(self.missing, other.missing)
            and alike(self.from_previous_leader, other.from_previous_leader)
        )

    def changed_since(self, before: "Violations") -> Bools:
        """Return the nodes whose result differs from an earlier one for the same strategy and nodes, shape (nodes,)."""
        changed: Bools = self.violated ^ before.violated
        pairs = [
            (self.missing, before.missing),
            (self.from_previous_leader, before.from_previous_leader),
        ]
        if self.per_rule.shape[1] > 1:
            pairs.append((self.per_rule, before.per_rule))
        for now, old in pairs:
            if now is not old:
                changed = changed | (now ^ old).any(axis=1)
        return changed

    def first(self) -> npt.NDArray[np.intp]:
        """Return the index of the first violated rule per violating node; rules known only from a label come last."""
        first = np.zeros(len(self.violated), np.int32)
        tables = [self.per_rule]
        if self.from_previous_leader.any():
            tables.append(self.per_rule & ~self.from_previous_leader)
        for table in tables:  # the last write counts; each rule's column is contiguous
            for number in reversed(range(table.shape[1])):
                np.putmask(first, table[:, number], number)
        return first[self.violated].astype(np.intp)


def reason_prefix(policy: str) -> str:
    """Return the text that each reason of a policy starts with; it identifies the policy in a pod's condition."""
    return f"violating {policy}: "


def refuses(policy: str, message: str) -> bool:
    """Return whether a message of kube-scheduler has a reason of this policy."""
    return reason_prefix(policy) in message


def reasons(policy: str, strategy: Strategy, nodes: NodeIndex, found: Violations) -> dict[str, str]:
    """Map each violating node to a reason that is constant for a rule.

    It contains no reading: kube-scheduler writes the text to the pod, and retries a pod at once when it changes.
    """
    names = nodes.names_at(found.violated)
    if not names:
        return {}
    texts, which = _texts(strategy, found)
    prefixed = [f"{reason_prefix(policy)}{text}" for text in texts]
    if len(prefixed) == 1:
        return dict.fromkeys(names, prefixed[0])
    return dict(zip(names, map(prefixed.__getitem__, which.tolist()), strict=True))


def _texts(strategy: Strategy, found: Violations) -> tuple[list[str], npt.NDArray[np.intp]]:
    """Return the distinct reasons, and for each violating node the index of its reason."""
    if (len(strategy.rules) == 1 or strategy.all_of) and not found.missing.any():
        text = " and ".join(map(str, strategy.rules))
        return [text], np.zeros(np.count_nonzero(found.violated), np.intp)
    if strategy.all_of:
        return _texts_of_all(strategy, found)
    first = found.first()
    by_missing = found.missing[found.violated.nonzero()[0], first]
    codes = 2 * first + by_missing
    used_codes = np.bincount(codes).nonzero()[0]
    texts = [
        _text(strategy.rules[code // 2], missing=code % 2 == 1) for code in used_codes.tolist()
    ]
    return texts, np.searchsorted(used_codes, codes)


def _texts_of_all(strategy: Strategy, found: Violations) -> tuple[list[str], npt.NDArray[np.intp]]:
    patterns, which = np.unique(found.missing[found.violated], axis=0, return_inverse=True)
    texts = []
    for pattern in patterns.tolist():
        parts = zip(strategy.rules, pattern, strict=True)
        texts.append(" and ".join(_text(rule, missing=missing) for rule, missing in parts))
    return texts, which.reshape(-1)


def _text(rule: Rule, *, missing: bool) -> str:
    return f"{rule.metric} is missing" if missing else str(rule)


class ViolationReasons(Mapping[str, str]):
    """Node → why it violates a strategy, in no particular order.

    A lazy mapping: the dict is built on the first look-up. If the previous decision's was built, then from a copy of that,
    since most nodes keep their reason.
    """

    def __init__(
        self, policy: str, strategy: Strategy, nodes: NodeIndex, found: Violations
    ) -> None:
        self.policy = policy
        self.strategy = strategy
        self.found = found
        self.nodes = NodeMask(nodes, found.violated)
        self._earlier: tuple[Violations, dict[str, str]] | None = None
        """An earlier result and its dict."""

    @cached_property
    def by_name(self) -> dict[str, str]:
        """The dict; read-only."""
        earlier, self._earlier = self._earlier, None
        if earlier is not None:
            found, by_name = earlier
            changed = self.found.changed_since(found)
            if np.count_nonzero(changed) <= _FEW * len(changed):
                return self._updated(by_name, changed)
        return reasons(self.policy, self.strategy, self.nodes.nodes, self.found)

    def _updated(self, earlier: dict[str, str], changed: Mask) -> dict[str, str]:
        """Return a copy of an earlier dict, with the changed nodes updated."""
        by_name = earlier.copy()
        for name in self.nodes.nodes.names_at(changed & ~self.found.violated):
            by_name.pop(name, None)
        by_name.update(self.some(changed))
        return by_name

    def some(self, among: Mask) -> dict[str, str]:
        """Return the reasons of the violating nodes in a mask, without building those of the others."""
        found = replace(self.found, violated=self.found.violated & among)
        return reasons(self.policy, self.strategy, self.nodes.nodes, found)

    def reuse(self, before: Mapping[str, str]) -> Mapping[str, str]:
        """Return `before` if it is equal, else self, which reuses the dict of `before` if that was built."""
        if (
            not isinstance(before, ViolationReasons)
            or before.nodes.nodes is not self.nodes.nodes
            or before.policy != self.policy
            or before.strategy != self.strategy
        ):
            return self
        if before.found.same(self.found):
            return before
        if "by_name" in vars(before):  # not `before` itself: it would keep all its predecessors
            self._earlier = (before.found, before.by_name)
        return self

    def __len__(self) -> int:
        return self.nodes.count

    def __getitem__(self, node: str) -> str:
        return self.by_name[node]

    def __contains__(self, node: object) -> bool:
        return node in self.by_name

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def keys(self) -> KeysView[str]:
        """Return the keys view of the dict: look-ups in it run without Python calls."""
        return self.by_name.keys()

    def items(self) -> ItemsView[str, str]:
        """Return the items view of the dict."""
        return self.by_name.items()

    def __repr__(self) -> str:
        return repr(self.by_name)


def plain(reasons: Mapping[str, str]) -> Mapping[str, str]:
    """Return the dict behind reasons, for many look-ups without Python calls."""
    return reasons.by_name if isinstance(reasons, ViolationReasons) else reasons


def some_reasons(reasons: Mapping[str, str], among: Mask, nodes: NodeIndex) -> Mapping[str, str]:
    """Return the reasons of the violating nodes in a mask over `nodes`, without building those of the others."""
    if isinstance(reasons, ViolationReasons):
        return reasons.some(among)
    return {name: reasons[name] for name in nodes.names_at(among) if name in reasons}


def violators(reasons: Mapping[str, str], nodes: NodeIndex) -> Mask:
    """Return the violating nodes as a read-only mask over `nodes`, the nodes of the decision."""
    if isinstance(reasons, ViolationReasons):
        return reasons.nodes.mask
    if not reasons:
        return nodes.none
    return np.fromiter((node in reasons for node in nodes), np.bool_, len(nodes))


class NodesByMetric(Mapping[str, Sequence[str]]):
    """Metric → nodes, such as those without a usable reading; metrics without such nodes are left out."""

    def __init__(self, nodes: Mapping[str, NodeMask]) -> None:
        self._nodes = {metric: mask for metric, mask in nodes.items() if mask.count}

    def count(self, metric: str) -> int:
        """Return the number of nodes of a metric."""
        found = self._nodes.get(metric)
        return found.count if found else 0

    def __getitem__(self, metric: str) -> Sequence[str]:
        return self._nodes[metric].names

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def __repr__(self) -> str:
        return repr(dict(self))
