"""Memory of failures: scores of nodes in an annotation, as metrics, and flapping nodes that stay in violation; what statuses, Events and
pages say about them.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from msgspec import UNSET

from evaluator.core.assembly import Core
from evaluator.core.feature import Feature, Written
from evaluator.core.loop.loop import DecisionLoop, DecisionParts
from evaluator.core.metrics import PolicyGauge
from evaluator.core.model.events import EventSpec
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node import Node
from evaluator.core.options import FeatureOptions
from evaluator.core.pages.part import PagePart
from evaluator.core.policy.decide import Decision
from evaluator.core.policy.types import Policy
from evaluator.core.policy.vocabulary import PUBLIC, PolicyMetric, Vocabulary
from evaluator.core.policy_status import Episode, PolicyCondition, PolicyPart, listed
from evaluator.core.signals import (
    Decided,
    NodeAnnotationsChanged,
    PolicyChanged,
    StopsChanged,
    on,
    on_node,
    wakes,
)
from evaluator.core.wiring import Wired
from evaluator.core.writes.node_plan import NodeOperations, Removal
from evaluator.core.writes.node_writer import while_leading
from evaluator.features.memory.annotations import MEMORY, SCORE, Memory
from evaluator.features.memory.controller import MemoryMetrics, Transitions, memory_writer
from evaluator.features.memory.page import (
    PAGES,
    DeviceScore,
    FlappingFields,
    PolicyMemoryFields,
    PolicyScore,
    RememberedNode,
    ShownMemory,
    WrittenMemoryFields,
)
from evaluator.features.memory.readings import (
    SCORES,
    Held,
    Memories,
    WithScores,
    records,
    remembered,
)
from evaluator.features.memory.scores import ANNOTATION, Decaying, Score
from evaluator.features.memory.since import foreign_scores_since
from plimsoll import flags, rfc3339
from plimsoll.flags import option

NODES_FLAPPING = "NodesFlapping"
"""Condition type of a policy with a memory."""
_FLAPPING = Episode(
    NODES_FLAPPING,
    EventSpec(
        "Warning",
        NODES_FLAPPING,
        "nodes violated the policy again and again: they stay in violation until their score has decayed; "
        f"the condition {NODES_FLAPPING} names them",
    ),
    EventSpec("Normal", "NodesSettled", "no node flaps any more"),
)
_NAMED = 10
"""Flapping nodes of a policy in a list of policies; the others are counted."""
_SHOWN = 100
"""Nodes of a policy on its page, the highest scores first; the others are counted."""


def _no_warnings(_policy: Policy) -> Iterator[str]:
    """Yield nothing."""
    yield from ()


class MemoryReport:
    """The parts of statuses and pages.

    `nodes`: returns how many nodes there are; `wall`: returns Unix time; `unshared`: yields a warning for each score of another
    namespace that a policy uses although it is not public.
    """

    def __init__(
        self,
        memories: Memories,
        flapping: PolicyGauge,
        nodes: Callable[[], int],
        wall: Callable[[], float] = time.time,
        unshared: Callable[[Policy], Iterator[str]] = _no_warnings,
    ) -> None:
        self._memories = memories
        self._gauge = flapping
        self._nodes = nodes
        self._wall = wall
        self._unshared = unshared
        self._gauged: set[PolicyKey] = set()

    def part(self, decision: Decision) -> PolicyPart:
        """Return the condition and the Events about flapping nodes of a policy with a memory, and warnings about scores."""
        policy = decision.policy
        warnings = tuple(self._unshared(policy))
        memory = policy.actions.part(Memory)
        if not memory.half_life:
            return PolicyPart(warnings=warnings)
        names = self._memories.flapping(policy.key)
        if policy.observed:
            text = f"only observed: no node is held, scores {'count' if memory.count_observed else 'are kept'} and decay"
            condition = PolicyCondition(NODES_FLAPPING, "False", "Observed", text)
        elif not names:
            text = f"no node has a score above {memory.flapping_above:g}"
            condition = PolicyCondition(NODES_FLAPPING, "False", "NoneFlaps", text)
        else:
            text = f"{listed(names, self._nodes())} stay in violation: their score is above {memory.flapping_above:g}"
            condition = PolicyCondition(NODES_FLAPPING, "True", "ScoreTooHigh", text)
        return PolicyPart(
            warnings=warnings, conditions=(condition,), episodes={_FLAPPING: bool(names)}
        )

    def show(self, decided: Decided) -> Iterator[None]:
        """Update the gauge, one policy per step."""
        known = self._memories.half_lives.keys() & decided.decisions.policies.keys()
        for key in self._gauged - known:
            self._gauge.remove(tuple(key))
        for key in known:
            self._gauge.set(tuple(key), len(self._memories.flapping(key)))
            yield
        self._gauged = set(known)

    def page(self) -> PagePart:
        """Return the part of pages."""
        return PagePart(policy=self.policy, listed=self.listed, written=self.written)

    def listed(self, decision: Decision) -> FlappingFields | None:
        """Return the nodes that flap, for lists of policies; nothing without a memory."""
        if not decision.policy.actions.part(Memory).half_life:
            return None
        names = self._memories.flapping(decision.policy.key)
        more = max(0, len(names) - _NAMED) or UNSET
        return FlappingFields(flapping=list(names[:_NAMED]), flapping_more=more)

    def policy(self, decision: Decision) -> PolicyMemoryFields | None:
        """Return the memory of a policy: half-life, and the nodes with a score."""
        memory = decision.policy.actions.part(Memory)
        if not memory.half_life:
            return None
        now, scores = self._wall(), self._memories.of_policy(decision.policy.key)
        flapping = {*self._memories.flapping(decision.policy.key)}
        rows = [
            RememberedNode(
                **_shown(score, now, memory.half_life, flapping=name in flapping), node=name
            )
            for name, score in scores.items()
        ]
        rows.sort(key=lambda row: (-row.score, row.node))
        above = memory.flapping_above
        shown = ShownMemory(
            half_life_seconds=memory.half_life,
            flapping_above=above if above < float("inf") else None,
            nodes=rows[:_SHOWN],
            nodes_more=max(0, len(rows) - _SHOWN) or UNSET,
        )
        return PolicyMemoryFields(memory=shown)

    def written(self, node: Node | None) -> WrittenMemoryFields:
        """Return the scores of a node, by policy."""
        if node is None:
            return WrittenMemoryFields(memory={})
        now = self._wall()
        found = remembered(node).until(now)
        half_lives, name = self._memories.half_lives, node.metadata.name
        memory = {}
        for key, score in sorted(found.scores.items()):
            half_life, flapping = half_lives.get(key, float("inf")), self._memories.flapping(key)
            parts = _shown(score, now, half_life, flapping=name in flapping)
            memory[str(key)] = PolicyScore(**parts)
        return WrittenMemoryFields(memory=memory)


def _shown(score: Score, now: float, half_life: float, *, flapping: bool) -> dict[str, Any]:
    """Return the fields of a `PolicyScore`."""
    devices = [
        DeviceScore(**_decayed(one, now, half_life), device=name)
        for name, one in score.devices.items()
    ]
    devices.sort(key=lambda row: (-row.score, row.device))
    return {
        **_decayed(score, now, half_life),
        "violated": score.violated,
        "devices": devices,
        "flapping": flapping,
    }


def _decayed(score: Score | Decaying, now: float, half_life: float) -> dict[str, Any]:
    """Return the fields of a `DecayedScore`."""
    return {
        "score": round(score.now(now, half_life), 4),
        "last_violation": rfc3339.seconds(score.at),
    }


class _Cluster:
    """What the memory reads of the cluster."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._cluster = core.cluster
        self._loop: DecisionLoop = core.loop
        self.memories = Memories(self.policies, core.contributions.stops)

    def policies(self) -> Mapping[PolicyKey, Policy]:
        """Return the policies of the cluster."""
        return self._cluster.policies.objects

    def nodes(self) -> int:
        """Return the number of nodes."""
        return len(self._cluster.nodes.objects)

    def changed(self, node: str) -> None:
        """A node's annotation changed, and with it perhaps the result of a rule."""
        if self.memories.changed(node, self._cluster.nodes.objects.get(node)):
            self._loop.touch()

    async def words(self, vocabulary: Vocabulary) -> Vocabulary:
        """Return the words of policies, with the time since which they read only public scores of other namespaces."""
        core = self._core
        since = await foreign_scores_since(core.api, core.namespace, core.options.lease_name)
        return _with_scores(vocabulary, since=since)

    def unshared(self, policy: Policy) -> Iterator[str]:
        """Yield a warning for each score of another namespace that a policy uses although it is not public."""
        for metric, key, _ in self._core.vocabulary.unshared(policy, self.policies()):
            yield (
                f"{metric} is read since this policy is older than the rule that scores of other namespaces are read only if "
                f"they are public, and there is no policy {key} with the annotation {SCORE}: {PUBLIC}: set it there, or allow "
                "all scores by --foreignScores=all"
            )


_FOREIGN = "scores of policies of other namespaces are not read (--foreignScores=none)"
ALL, NONE = "all", "none"


def _with_scores(vocabulary: Vocabulary, **changes: Any) -> Vocabulary:
    """Return the words of policies with changes of the row of scores."""
    rows: Iterator[PolicyMetric] = (
        replace(row, **changes) if row.prefix == SCORES.prefix else row
        for row in vocabulary.of_policies
    )
    return replace(vocabulary, of_policies=tuple(rows))


@dataclass(frozen=True, kw_only=True)
class MemoryOptions(FeatureOptions):
    """The flags of the memory."""

    foreign_scores: str = option(
        "foreignScores",
        PUBLIC,
        "whose violation_score_<namespace>_<policy> the rules of a policy may read beside those of its namespace: of policies with "
        "the annotation plimsoll.io/score: public, of `all`, or of `none`. With `public`, policies that were created before the "
        "upgrade to this version read all, and their status warns",
        metavar="WHICH",
        parse=flags.choice(PUBLIC, ALL, NONE),
    )

    def words(self, vocabulary: Vocabulary) -> Vocabulary:
        """Return the words of policies with these flags."""
        return (
            _with_scores(vocabulary, closed=_FOREIGN) if self.foreign_scores == NONE else vocabulary
        )


def removals(_options: FeatureOptions, node: Node) -> Iterator[Removal]:
    """Yield the write that removes the annotation of a node, for the command `clean`."""
    if node.annotation(ANNOTATION):
        meta, path = node.metadata, ANNOTATION.replace("/", "~1")
        operations = (
            {"op": "test", "path": "/metadata/uid", "value": meta.uid},
            {"op": "remove", "path": f"/metadata/annotations/{path}"},
        )
        yield Removal(f"annotation {ANNOTATION}", NodeOperations(meta.name, operations))


def wire(core: Core, options: MemoryOptions) -> Wired:
    """Read scores on every replica; write them while this one leads."""
    metrics = MemoryMetrics(core.metrics.registry)
    cluster = _Cluster(core)
    memories = cluster.memories
    epoch = time.time() - time.monotonic()
    transitions = Transitions(core.writes, memories, cause_of=core.causes.cause_of)
    writer = memory_writer(core.writes, transitions, metrics.writes)
    only_public = options.foreign_scores == PUBLIC
    report = MemoryReport(
        memories,
        metrics.flapping_nodes,
        cluster.nodes,
        unshared=cluster.unshared if only_public else _no_warnings,
    )
    parts = DecisionParts(
        layer=partial(WithScores, memories=memories, epoch=epoch),
        holds=Held(memories, epoch=epoch),
        records=records,
    )
    return Wired(
        reacts=(
            *wakes(memories.policies_changed, PolicyChanged),
            on_node(NodeAnnotationsChanged, cluster.changed),
            on_node(NodeAnnotationsChanged, writer.wake),
            *while_leading(writer),
            *wakes(writer.start_over, StopsChanged),
            on(Decided, report.show),
        ),
        decides=[parts],
        words=cluster.words if only_public else None,
        loops=[writer.run],
        policy_part=report.part,
        page=report.page(),
    )


FEATURE = Feature(
    name="memory",
    options=MemoryOptions,
    metrics=MemoryMetrics,
    wire=wire,
    written=Written(what=f"the annotation {ANNOTATION}", options=FeatureOptions, removals=removals),
    pages=PAGES,
    vocabulary=Vocabulary(actions=(MEMORY,), of_policies=(SCORES,)),
)
