"""Reports on pods: why one waits, and the list of those that name a policy; and on nodes."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import NamedTuple, TypeVar

import numpy as np
from msgspec import UNSET

from evaluator.core.cache.policy_pods import policy_of
from evaluator.core.http.ops import WAITING
from evaluator.core.model.pod import Pod
from evaluator.core.model.pod_record import PodRecord
from evaluator.core.page_fields import PodFields, extended
from evaluator.core.pages.part import PodOpinions
from evaluator.core.pages.section import SHOWN, Entries, PageError, Report
from evaluator.core.pages.window import Window
from evaluator.core.placement.explain import placed_on
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.label_sets import assignments_of
from evaluator.features.pages.explain import nodes as explain_nodes
from evaluator.features.pages.explain import pod as explain_pod
from evaluator.features.pages.explain import states
from evaluator.features.pages.explain.metrics import failing_on
from evaluator.features.pages.explain.pod import PodExplanation
from evaluator.features.pages.explain.pod_summary import PodContext, no_pods
from evaluator.features.pages.kinds import NodeList, NodePage, NodesPage, PodPage, PodsPage, Written
from evaluator.features.pages.policies import listed_pod
from evaluator.features.pages.sources import PageSources, UnreadablePodError
from plimsoll.fairlock import FairLock
from plimsoll.http.pieces import stepwise, unhurried

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
"""Names that a pod or a namespace can have."""
_PLACED = "it is scored like a new pod: its requests and usage already count on that node"
NO_OPINIONS = PodOpinions(PodFields(), {})
N = TypeVar("N")


class NodeReports:
    """Builds the reports. Each method must be called by one page at a time."""

    def __init__(self, sources: PageSources) -> None:
        self._sources = sources
        self._decider = sources.decider
        self._cached = sources.cluster.nodes.objects

    async def listed(self) -> Report:
        """Report on all nodes: the policies that they violate, and their labels."""
        nodes = await stepwise(
            explain_nodes.nodes(self._decider.latest, cause_of=self._sources.causes.cause_of)
        )
        return Report(NodeList(waiting_for=self._sources.waiting()), objects={"nodes": nodes})

    async def page(self, window: Window) -> Report:
        """Report on the nodes of a page: those that differ first."""
        decisions = self._decider.latest
        codes = await stepwise(explain_nodes.worst(decisions))
        names = decisions.table.nodes
        positions = await stepwise(states.chosen(codes, names, window))
        shown = np.array(window.shown(positions.tolist()), np.intp)
        rows = await stepwise(
            explain_nodes.rows(decisions, codes, shown, self._cached, self._sources.causes.cause_of)
        )
        head = NodesPage(
            waiting_for=self._sources.waiting(),
            states=states.counts(codes),
            window=window.described(len(positions), len(names)),
        )
        return Report(head, objects={"nodes": rows})

    async def node(self, name: str, window: Window | None = None) -> Report:
        """Report on a node: each policy with its readings, what was written to it, its failing rules, and what scorers know of it; for a page also its past."""
        decisions, sources = self._decider.latest, self._sources
        if name not in decisions.table.nodes.position:
            raise PageError(f"no node {name[:SHOWN]}")
        with self._decider.readings() as readings:
            policies = await stepwise(
                explain_nodes.node(
                    name,
                    decisions,
                    readings,
                    now=sources.clock(),
                    since=sources.since,
                    cause_of=sources.causes.cause_of,
                )
            )
        cached, parts = self._cached.get(name), sources.parts()
        written = Written(labels=states.own_labels(cached))
        head = NodePage(
            waiting_for=sources.waiting(),
            node=name,
            ready=cached.ready_status if cached else None,
            cordoned=cached.spec.unschedulable if cached else None,
            labels=assignments_of(decisions.labels).labels_at(decisions.table.nodes.position[name]),
            sources=list(sources.readings_from),
            written=extended(written, *(part.written(cached) for part in parts)),
            failing_rules=failing_on(sources.failing_rules, name, sources.clock()),
        )
        past = None
        if window is not None and sources.past is not None:
            past = await sources.past.of_node(name, window)
        head = extended(head, *(part.node(name) for part in parts), past)
        return Report(head, objects={"policies": policies})


class FoundPod(NamedTuple):
    """The pod namespace/name as the API server has it, and as scorers see it; both may be None."""

    name: str
    pod: Pod | None
    record: PodRecord | None
    gone: PodFields | None = None
    """How it was evicted, if it does not exist."""


class PodReports:
    """Builds the reports. Each method but `find` must be called by one page at a time."""

    def __init__(self, sources: PageSources) -> None:
        self._sources = sources
        self._decider = sources.decider
        self._cluster = sources.cluster
        self._reading = FairLock(WAITING)

    async def find(self, name: str) -> FoundPod:
        """Return the pod <namespace>/<name>, reading it from the API server if it is not cached. Raises PageError."""
        namespace, _, rest = name.partition("/")
        scorers = self._sources.judge
        try:
            async with self._reading.hold():
                pod = await self._read(namespace, rest)
        except UnreadablePodError as failure:
            raise PageError(str(failure), HTTPStatus.BAD_GATEWAY) from failure
        if pod is None and scorers is not None and (waiting := scorers.waiting_for):
            sentence = f"waiting for {', '.join(waiting)}"
            raise PageError(sentence, HTTPStatus.SERVICE_UNAVAILABLE)
        record = scorers.find(name) if scorers is not None and not scorers.waiting_for else None
        if pod is None and record is None:
            past = self._sources.past
            if past is not None and (gone := await past.of_gone_pod(name)) is not None:
                return FoundPod(name, None, None, gone)
            raise PageError(f"no pod {name[:SHOWN]} (written as <namespace>/<name>)")
        return FoundPod(name, pod, record)

    async def _read(self, namespace: str, name: str) -> Pod | None:
        cached = self._cluster.pods.objects.get((namespace, name))
        if cached is not None or not (_NAME.fullmatch(namespace) and _NAME.fullmatch(name)):
            return cached
        return await self._sources.read_pod(namespace, name)

    async def pod(self, selected: FoundPod, window: Window | None = None) -> Report:
        """Report why a pod waits: its policy, and what refuses it on each node; with scorers also their scores."""
        name, record, sources = selected.name, selected.record, self._sources
        past = sources.past.of_pod(name) if sources.past is not None else None
        opinions = NO_OPINIONS
        if record is not None and sources.judge is not None:
            opinions = await sources.judge.opinions(record)
        added: list[PodFields | None] = [opinions.head, selected.gone]
        if selected.pod is None:
            head = PodPage(pod=name, summary="gone" if selected.gone else UNSET)
            nodes: Entries = _some(opinions.nodes, window)
        else:
            decisions = self._decider.latest
            head, own = await self._explained(decisions, selected.pod, record, opinions, window)
            added += [part.pod(selected.pod) for part in sources.parts()]
            nodes = ((node, extended(one, opinions.nodes.get(node))) for node, one in own)
        if record is not None and sources.judge is not None:
            head.problems = list(record.problems) or UNSET
            if record.node:
                head.node, head.placed = head.node or record.node, _PLACED
        return Report(extended(head, *added, past), objects={"nodes": nodes})

    async def _explained(
        self,
        decisions: Decisions,
        pod: Pod,
        record: PodRecord | None,
        opinions: PodOpinions,
        window: Window | None,
    ) -> PodExplanation:
        sources, key = self._sources, policy_of(pod)
        decision: Decision | None = decisions.policies.get(key) if key else None
        if decision and record is not None and sources.judge is not None:
            decision = sources.judge.decision(record) or decision
        now, placed = sources.clock(), no_pods
        if decision is not None and sources.placements is not None:
            counted = sources.placements.counted(decision, decisions, now)
            decision, placed = (
                counted.decision,
                partial(placed_on, sources.placements.measures, counted),
            )
        refused = {name: one.refused_by for name, one in opinions.nodes.items() if one.refused_by}
        context = PodContext(
            decisions,
            self._cluster.nodes.objects,
            decision,
            scorers=refused,
            scorer_reasons=opinions.reasons,
            waiting_for=tuple(self._decider.waiting_for),
            placed=placed,
        )
        with self._decider.readings() as readings:
            explanation = await stepwise(
                explain_pod.explain_pod(
                    pod,
                    context,
                    readings,
                    now=now,
                    window=window,
                    cause_of=sources.causes.cause_of,
                )
            )
        if explanation.head.policy and (named := decisions.policies.get(key) if key else None):
            explanation.head.policy.problems = sources.problems(named)
            explanation.head.policy.warnings = sources.warnings(named)
        return explanation

    async def page(self, window: Window) -> Report:
        """Report on the pods of a page that name a policy: those without a node first."""
        every = list(self._cluster.pods.objects.values())
        total = sum(await unhurried(window.covers(pod.metadata.namespace) for pod in every))
        names = await unhurried(_listed(pod, window) for pod in every)
        ordered = sorted(entry for entry in names if entry is not None)
        await unhurried([])
        rows = [
            listed_pod(pod)
            for _, _, key in window.shown(ordered)
            if (pod := self._cluster.pods.objects.get(key)) is not None
        ]
        shown = window.described(len(ordered), total)
        head = PodsPage(waiting_for=self._sources.waiting(), window=shown)
        return Report(head, arrays={"pods": rows})


def _listed(pod: Pod, window: Window) -> tuple[bool, str, tuple[str, str]] | None:
    """Return what a list is sorted by, and the key of the pod; None if a window leaves it out."""
    name, waits = str(pod), pod.waiting
    if not window.covers(pod.metadata.namespace):
        return None
    if window.search not in name or (window.state == "waiting" and not waits):
        return None
    return not waits, name, (pod.metadata.namespace, pod.metadata.name)


def _some(nodes: Mapping[str, N], window: Window | None) -> Sequence[tuple[str, N]]:
    entries = list(nodes.items())
    return entries if window is None else window.shown(entries)
