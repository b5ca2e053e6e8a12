"""The last answer to kube-scheduler for each pod: which nodes were refused, ranked and chosen, with the readings of that moment."""

import asyncio
import heapq
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import msgspec

from evaluator.core.guard import UNGUARDED, Guard
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import NodeScores
from evaluator.core.page_fields import Number, extended
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.signals import Answered
from evaluator.features.history.history import History
from evaluator.features.history.kinds import (
    ChosenFields,
    PodDecision,
    RankedFields,
    RankedNode,
    RefusedNode,
)
from evaluator.features.history.records import Kind
from plimsoll import rfc3339
from plimsoll.http.pieces import unhurried
from plimsoll.quantity import json_number, readable
from plimsoll.text import counted, one_line

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


class _Answer(NamedTuple):
    """An answer, with few of its nodes: thousands of names for each of many pods would take much memory."""

    pod: str
    at: float
    decision: Decision
    table: MetricTable
    candidates: int
    refused: int
    named: Sequence[tuple[str, str]]
    """Refused nodes, with reasons."""
    ranked: NodeScores | None


@dataclass(slots=True)
class _Kept:
    """The last decision of a pod: parts of its JSON object, which are joined when it is read."""

    policy: str
    refused: int
    answered: bytes
    ranked: bytes = b""
    placed: bytes = b""

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.policy) + len(self.answered) + len(self.ranked) + len(self.placed)

    def decision(self) -> PodDecision:
        """Return the object."""
        return extended(
            msgspec.json.decode(self.answered, type=PodDecision),
            msgspec.json.decode(self.ranked, type=RankedFields) if self.ranked else None,
            msgspec.json.decode(self.placed, type=ChosenFields) if self.placed else None,
        )


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
        guard: Guard = UNGUARDED,
    ) -> None:
        """`wall` returns Unix seconds. `guard` takes what one pod raises."""
        self._guard = guard
        self._history = history
        self._latest = latest
        self._node_of = node_of
        self._limit = size
        self._wall = wall
        self._waiting: deque[_Answer] = deque(maxlen=_WAITING)
        self._placing: OrderedDict[str, None] = OrderedDict()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self.size = 0
        """Bytes."""

    def answered(self, answer: Answered) -> None:
        """Take over what is kept of an answer; the rest of the work is done later, since kube-scheduler waits."""
        decision = answer.decisions.policies.get(answer.policy)
        if decision is None:
            return
        refused = answer.refused or {}
        self._waiting.append(
            _Answer(
                answer.pod[:_LONGEST],
                self._wall(),
                decision,
                answer.decisions.table,
                answer.candidates,
                len(refused),
                [(node, refused[node]) for node in heapq.nsmallest(_NAMED, refused)],
                answer.scores.highest(_NAMED) if answer.scores is not None else None,
            )
        )

    async def run(self) -> None:
        """Look at answers and bindings until cancelled."""
        while True:
            await unhurried(self.steps())
            await asyncio.sleep(_PAUSE)

    def steps(self) -> Iterator[None]:
        """Look at the answers and bindings so far, one with each step."""
        while self._waiting:
            answer = self._waiting.popleft()
            self._guard.run(f"answer for {answer.pod}", partial(self._take, answer), None)
            yield
        for pod in tuple(self._placing):
            self._guard.attempt(f"binding of {pod}", partial(self._look_at, pod), None)
            yield

    def _look_at(self, pod: str) -> None:
        """Record the node of a pod, if it was bound."""
        if node := self._node_of(pod):
            self._placed(pod, node)

    def last_decision(self, pod: str) -> PodDecision | None:
        """Return the last decision of a pod; None if none is known."""
        kept = self._kept.get(pod)
        return None if kept is None else kept.decision()

    def _take(self, answer: _Answer) -> None:
        policy, pod = answer.decision.policy, answer.pod
        known = self._kept.get(pod)
        if answer.ranked is not None:
            if known is not None and known.policy == str(policy.key):
                self._keep(pod, replace(known, ranked=_ranked(answer, answer.ranked)))
            return
        made = _Kept(str(policy.key), answer.refused, _answered(answer))
        if made.refused and (
            known is None or (known.refused, known.policy) != (made.refused, made.policy)
        ):
            verb = "would be refused" if policy.observed else "refused"
            count = f"{answer.refused} of {counted(answer.candidates, 'node')} {verb}"
            text = f"{count}{':' if answer.refused == 1 else ', such as'} {_first_refused(answer)}"
            self._history.add(
                Kind.REFUSED,
                answer.at,
                policy=policy.key,
                pod=pod,
                text=one_line(text),
                observed=policy.observed,
            )
        self._keep(pod, made)
        self._placing[pod] = None
        self._placing.move_to_end(pod)
        if len(self._placing) > _PLACING:
            self._placing.popitem(last=False)

    def _placed(self, pod: str, node: str) -> None:
        """Record the node that a pod was bound to, with its readings now."""
        del self._placing[pod]
        known, latest, at = self._kept.get(pod), self._latest(), self._wall()
        if known is None:
            return
        namespace, _, name = known.policy.partition("/")
        decision = latest.policies.get(PolicyKey(namespace, name))
        readings = _readings(decision, latest.table, node) if decision else {}
        found = ChosenFields(node, rfc3339.millis(at), readings)
        self._keep(pod, replace(known, placed=msgspec.json.encode(found)))
        key = decision.policy.key if decision else None
        self._history.add(Kind.PLACED, at, policy=key, node=node, pod=pod)

    def _keep(self, pod: str, made: _Kept) -> None:
        self._forget(pod)
        self._kept[pod] = made
        self.size += _ENTRY + len(pod) + made.size
        while self.size > self._limit:
            self._forget(next(iter(self._kept)))

    def _forget(self, pod: str) -> None:
        if (kept := self._kept.pop(pod, None)) is not None:
            self.size -= _ENTRY + len(pod) + kept.size


def _first_refused(answer: _Answer) -> str:
    """Return the first refused node, with the reason and the reading of the first rule that it violates."""
    node, reason = answer.named[0]
    state = answer.decision.states.get(StrategyName.DONTSCHEDULE)
    position = answer.table.nodes.position.get(node)
    if state is None or position is None or not state.found.violated[position]:
        return f"{node} {reason}"
    rule = state.rules[int(state.found.per_rule[position].argmax())]
    value = _reading(answer.table, rule.shown or rule.metric, node)
    shown = "no reading" if value is None else readable(rule.metric, value, rule.target)
    return f"{node} {reason} ({shown})"


def _answered(answer: _Answer) -> bytes:
    decision, table = answer.decision, answer.table
    return msgspec.json.encode(
        PodDecision(
            at=rfc3339.millis(answer.at),
            policy=str(decision.policy.key),
            generation=decision.policy.generation,
            mode="observe" if decision.policy.observed else "enforce",
            candidates=answer.candidates,
            refused=answer.refused,
            refused_nodes=[
                RefusedNode(node, reason, _readings(decision, table, node))
                for node, reason in answer.named
            ],
        )
    )


def _ranked(answer: _Answer, best: NodeScores) -> bytes:
    policy = answer.decision.policy
    strategy = policy.strategies.get(StrategyName.SCHEDULEONMETRIC)
    metric = strategy.rules[0].metric if strategy and strategy.rules else ""
    concealed = bool(metric) and policy.shown[metric] != metric
    ranked = [
        RankedNode(node, score, _reading(answer.table, metric, node))
        for node, score in (() if concealed else best.pairs())
    ]
    return msgspec.json.encode(RankedFields(metric, ranked))


def _readings(decision: Decision, table: MetricTable, node: str) -> dict[str, Number]:
    """Return the readings of a node that the policy's strategies for kube-scheduler use."""
    strategies = (StrategyName.DONTSCHEDULE, StrategyName.SCHEDULEONMETRIC)
    used: Iterable[str] = (
        rule.metric
        for name in strategies
        if name in decision.policy.strategies
        for rule in decision.policy.strategies[name].rules
    )
    visible = decision.policy.shown
    return {metric: _reading(table, visible[metric], node) for metric in sorted(set(used))}


def _reading(table: MetricTable, metric: str, node: str) -> Number:
    position, column = table.nodes.position.get(node), table.prepared.get(metric)
    if position is None or column is None:
        return None
    return json_number(float(column.values[position]))
