"""The last answer to kube-scheduler for each pod: which nodes were refused, ranked and chosen, with the readings of that moment."""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from evaluator.core.model.node_index import NodeScores
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.report import Facts, PodAnswer
from evaluator.features.history.history import History
from evaluator.features.history.records import Kind
from plimsoll import rfc3339
from plimsoll.http.pieces import unhurried
from plimsoll.text import counted

_WAITING = 256
"""Answers that are not looked at yet; further ones replace the oldest: kube-scheduler does not wait for the history."""
_PLACING = 1_000
"""Pods whose binding is awaited."""
_NAMED = 10
"""Nodes named of those refused, and of those ranked; others are counted."""
_LONGEST = 510
"""Characters of a pod's name; namespace and name have at most 507."""
_ENTRY = 250
"""Bytes of an entry beside its text."""
_PAUSE = 0.5
"""Seconds between two looks at answers and bindings."""

NodeOf = Callable[[str], str]
"""Returns the node of the pod namespace/name; empty without one."""


class PodDecisions:
    """The last decision of each pod within `size` bytes; those of the pods decided longest ago are dropped first."""

    def __init__(
        self,
        history: History,
        latest: Callable[[], Decisions],
        node_of: NodeOf,
        size: int,
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`wall` returns Unix seconds."""
        self._history = history
        self._latest = latest
        self._node_of = node_of
        self._limit = size
        self._wall = wall
        self._waiting: deque[tuple[PodAnswer, float]] = deque(maxlen=_WAITING)
        self._placing: OrderedDict[str, None] = OrderedDict()
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self.size = 0
        """Bytes."""

    def answered(self, answer: PodAnswer) -> None:
        """Take over an answer; it is looked at later, since kube-scheduler waits."""
        self._waiting.append((answer, self._wall()))

    async def run(self) -> None:
        """Look at answers and bindings until cancelled."""
        while True:
            await unhurried(self.steps())
            await asyncio.sleep(_PAUSE)

    def steps(self) -> Iterator[None]:
        """Look at the answers and bindings so far, one with each step."""
        while self._waiting:
            answer, at = self._waiting.popleft()
            self._take(answer, at)
            yield
        for pod in tuple(self._placing):
            if node := self._node_of(pod):
                self._placed(pod, node)
            yield

    def of(self, pod: str) -> dict[str, Any] | None:
        """Return the last decision of a pod; None if none is known."""
        text = self._kept.get(pod)
        return None if text is None else msgspec.json.decode(text)

    def _take(self, answer: PodAnswer, at: float) -> None:
        decision = answer.decisions.policies.get(answer.policy)
        if decision is None:
            return
        pod, table = answer.pod[:_LONGEST], answer.decisions.table
        known = self.of(pod)
        if answer.scores is not None:
            if known is not None and known["policy"] == str(answer.policy):
                self._keep(pod, {**known, **_ranked(decision, table, answer.scores)})
            return
        refused = answer.refused or {}
        found = {
            "at": rfc3339.millis(at),
            "policy": str(answer.policy),
            "generation": decision.policy.generation,
            "mode": "observe" if decision.policy.observed else "enforce",
            "candidates": len(answer.nodes),
            "refused": len(refused),
            "refusedNodes": _refused(decision, table, refused),
        }
        if refused and (known is None or any(known[n] != found[n] for n in ("refused", "policy"))):
            verb = "would be refused" if decision.policy.observed else "refused"
            text = f"{len(refused)} of {counted(len(answer.nodes), 'node')} {verb}"
            observed = decision.policy.observed
            self._history.add(
                Kind.REFUSED, at, policy=answer.policy, pod=pod, text=text, observed=observed
            )
        self._keep(pod, found)
        self._placing[pod] = None
        self._placing.move_to_end(pod)
        if len(self._placing) > _PLACING:
            self._placing.popitem(last=False)

    def _placed(self, pod: str, node: str) -> None:
        """Record the node that a pod was bound to, with its readings now."""
        del self._placing[pod]
        known, latest = self.of(pod), self._latest()
        if known is None:
            return
        namespace, _, name = known["policy"].partition("/")
        decision = next(
            (one for key, one in latest.policies.items() if key == (namespace, name)), None
        )
        readings = _readings(decision, latest.table, node) if decision else {}
        at = self._wall()
        self._keep(
            pod, {**known, "chosen": node, "chosenAt": rfc3339.millis(at), "readings": readings}
        )
        key = decision.policy.key if decision else None
        self._history.add(Kind.PLACED, at, policy=key, node=node, pod=pod)

    def _keep(self, pod: str, found: Facts) -> None:
        self._forget(pod)
        text = self._kept[pod] = msgspec.json.encode(found)
        self.size += _ENTRY + len(pod) + len(text)
        while self.size > self._limit:
            self._forget(next(iter(self._kept)))

    def _forget(self, pod: str) -> None:
        if (text := self._kept.pop(pod, None)) is not None:
            self.size -= _ENTRY + len(pod) + len(text)


def _refused(
    decision: Decision, table: MetricTable, refused: Mapping[str, str]
) -> list[dict[str, Any]]:
    some = sorted(refused)[:_NAMED]
    return [
        {"node": node, "reason": refused[node], "readings": _readings(decision, table, node)}
        for node in some
    ]


def _ranked(decision: Decision, table: MetricTable, scores: NodeScores) -> dict[str, Any]:
    best = sorted(scores.pairs(), key=lambda one: (-one[1], one[0]))[:_NAMED]
    strategy = decision.policy.strategies.get(StrategyName.SCHEDULEONMETRIC)
    metric = strategy.rules[0].metric if strategy and strategy.rules else ""
    return {
        "rankedBy": metric,
        "ranked": [
            {"node": node, "score": score, "reading": _reading(table, metric, node)}
            for node, score in best
        ],
    }


def _readings(decision: Decision, table: MetricTable, node: str) -> dict[str, float | None]:
    """Return the readings of a node that the policy's strategies for kube-scheduler use."""
    strategies = (StrategyName.DONTSCHEDULE, StrategyName.SCHEDULEONMETRIC)
    used: Iterable[str] = (
        rule.metric
        for name in strategies
        if name in decision.policy.strategies
        for rule in decision.policy.strategies[name].rules
    )
    return {metric: _reading(table, metric, node) for metric in sorted(set(used))}


def _reading(table: MetricTable, metric: str, node: str) -> float | None:
    position, column = table.nodes.position.get(node), table.prepared.get(metric)
    if position is None or column is None:
        return None
    value = float(column.values[position])
    return value if value == value else None
