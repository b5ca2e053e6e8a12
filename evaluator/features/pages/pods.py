"""Reports on pods: why one waits, and the list of those that name a policy; and on nodes."""

import re
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple

import numpy as np

from evaluator.core.cache.policy_pods import policy_of
from evaluator.core.http.ops import WAITING
from evaluator.core.model.pod import Pod
from evaluator.core.model.pod_record import PodRecord
from evaluator.core.pages.facts import joined
from evaluator.core.pages.section import SHOWN, PageError, Report
from evaluator.core.pages.window import Window
from evaluator.core.placement.explain import placed_on
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.features.pages.explain import nodes as explain_nodes
from evaluator.features.pages.explain import pod as explain_pod
from evaluator.features.pages.explain import states
from evaluator.features.pages.explain.metrics import failing_on
from evaluator.features.pages.explain.pod_summary import PodContext, no_pods
from evaluator.features.pages.explain.policy import Explanation
from evaluator.features.pages.policies import about
from evaluator.features.pages.sources import PageSources, UnreadablePodError
from plimsoll.fairlock import FairLock
from plimsoll.http.pieces import stepwise, unhurried

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
"""Names that a pod or a namespace can have."""


class NodeReports:
    """Builds the reports. Each method must be called by one page at a time."""

    def __init__(self, sources: PageSources) -> None:
        self._sources = sources
        self._decider = sources.decider
        self._cached = sources.cluster.nodes.objects

    async def listed(self) -> Report:
        """Report on all nodes: the policies that they violate, and their labels."""
        nodes = await stepwise(
            explain_nodes.nodes(self._decider.latest, cause_of=self._sources.causes.of)
        )
        return Report(self._sources.waiting(), objects={"nodes": nodes})

    async def page(self, window: Window) -> Report:
        """Report on the nodes of a page: those that differ first."""
        decisions = self._decider.latest
        codes = await stepwise(explain_nodes.worst(decisions))
        names = decisions.table.nodes
        positions = await stepwise(states.chosen(codes, names, window))
        shown = np.array(window.of(positions.tolist()), np.intp)
        rows = await stepwise(
            explain_nodes.rows(decisions, codes, shown, self._cached, self._sources.causes.of)
        )
        head = {
            **self._sources.waiting(),
            "states": states.counts(codes),
            "window": window.described(len(positions), len(names)),
        }
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
                    cause_of=sources.causes.of,
                )
            )
        cached = self._cached.get(name)
        head = {
            **sources.waiting(),
            **explain_nodes.head(name, cached, decisions),
            "sources": list(sources.readings_from),
            "written": {
                "labels": states.own_labels(cached),
                **joined(part.written(cached) for part in sources.parts()),
            },
            "failingRules": failing_on(sources.failing_rules, name, sources.clock()),
            **joined(part.node(name) for part in sources.parts()),
        }
        if window is not None and sources.past is not None:
            head["past"] = await sources.past.of_node(name, window)
        return Report(head, objects={"policies": policies})


class FoundPod(NamedTuple):
    """A pod as the API server has it, and as scorers see it; either may be None."""

    pod: Pod | None
    record: PodRecord | None


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
            raise PageError(f"no pod {name[:SHOWN]} (written as <namespace>/<name>)")
        return FoundPod(pod, record)

    async def _read(self, namespace: str, name: str) -> Pod | None:
        cached = self._cluster.pods.objects.get((namespace, name))
        if cached is not None or not (_NAME.fullmatch(namespace) and _NAME.fullmatch(name)):
            return cached
        return await self._sources.read_pod(namespace, name)

    async def pod(self, selected: FoundPod, window: Window | None = None) -> Report:
        """Report why a pod waits: its policy, and what refuses it on each node; with scorers also their scores."""
        decisions = self._decider.latest
        head, nodes = await self._scores(selected.record)
        if (past := self._sources.past) is not None and (of := selected.pod or selected.record):
            head["past"] = past.of_pod(_name(of))
        if selected.pod is None:
            return Report(head, objects={"nodes": _some(nodes, window)})
        explained = await self._explained(decisions, selected.pod, selected.record, nodes, window)
        merged = ((name, {**nodes.get(name, {}), **own}) for name, own in explained.nodes)
        return Report({**head, **explained.head}, objects={"nodes": merged})

    async def _scores(
        self, record: PodRecord | None
    ) -> tuple[dict[str, Any], Mapping[str, dict[str, Any]]]:
        """Return the scores of a pod, for the head and by node; empty without scorers. Raises PageError."""
        scorers = self._sources.judge
        if record is None or scorers is None:
            return {}, {}
        opinions = await scorers.opinions(record)
        head = {**opinions.head, **_placed(record.node)}
        if record.problems:
            head["problems"] = list(record.problems)
        return head, opinions.nodes

    async def _explained(
        self,
        decisions: Decisions,
        pod: Pod,
        record: PodRecord | None,
        scores: Mapping[str, dict[str, Any]],
        window: Window | None,
    ) -> Explanation:
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
        refused = {name: score["refusedBy"] for name, score in scores.items() if score["refusedBy"]}
        context = PodContext(
            decisions,
            self._cluster.nodes.objects,
            decision,
            scorers=refused,
            scorer_reasons=_reasons(scores),
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
                    cause_of=sources.causes.of,
                )
            )
        if explanation.head["policy"] and (named := decisions.policies.get(key) if key else None):
            explanation.head["policy"]["problems"] = sources.problems(named)
        explanation.head.update(joined(part.pod(pod, explanation.head) for part in sources.parts()))
        return explanation

    async def page(self, window: Window) -> Report:
        """Report on the pods of a page that name a policy: those without a node first."""
        every = list(self._cluster.pods.objects.values())
        total = sum(await unhurried(window.covers(pod.metadata.namespace) for pod in every))
        names = await unhurried(_listed(pod, window) for pod in every)
        ordered = sorted(entry for entry in names if entry is not None)
        await unhurried([])
        rows = [
            {"pod": name, **about(pod)}
            for _, name, key in window.of(ordered)
            if (pod := self._cluster.pods.objects.get(key)) is not None
        ]
        head = {**self._sources.waiting(), "window": window.described(len(ordered), total)}
        return Report(head, arrays={"pods": rows})


def _listed(pod: Pod, window: Window) -> tuple[bool, str, tuple[str, str]] | None:
    """Return what a list is sorted by, and the key of the pod; None if a window leaves it out."""
    name, waits = str(pod), pod.waiting
    if not window.covers(pod.metadata.namespace):
        return None
    if window.search not in name or (window.state == "waiting" and not waits):
        return None
    return not waits, name, (pod.metadata.namespace, pod.metadata.name)


def _name(of: Pod | PodRecord) -> str:
    meta = of.metadata if isinstance(of, Pod) else of
    return f"{meta.namespace}/{meta.name}"


def _some(
    nodes: Mapping[str, dict[str, Any]], window: Window | None
) -> list[tuple[str, dict[str, Any]]]:
    entries = list(nodes.items())
    return entries if window is None else list(window.of(entries))


def _reasons(scores: Mapping[str, dict[str, Any]]) -> set[str]:
    """Return the texts that extenders refuse nodes with."""
    return {
        reason
        for score in scores.values()
        for by in score["refusedBy"]
        for reason in score["extenders"][by]["refused"].values()
    }


def _placed(node: str) -> dict[str, str]:
    """The node of a pod, if it is bound."""
    if not node:
        return {}
    looked = "it is scored like a new pod: its requests and usage already count on that node"
    return {"node": node, "placed": looked}
