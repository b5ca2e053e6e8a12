"""Reports on nodes."""

import numpy as np

from evaluator.core.pages import SHOWN, PageError, Report
from evaluator.core.report import Window, joined
from evaluator.features.pages.explain import failing_rules, policy_nodes, states
from evaluator.features.pages.explain import nodes as explain_nodes
from evaluator.features.pages.sources import PageSources
from plimsoll.http.pieces import stepwise


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
        positions = await stepwise(policy_nodes.chosen(codes, names, window))
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
                "labels": policy_nodes.own_labels(cached),
                **joined(part.written(cached) for part in sources.parts()),
            },
            "failingRules": failing_rules.of_node(sources.failing_rules, name, sources.clock()),
            **joined(part.node(name) for part in sources.parts()),
        }
        if window is not None and sources.past is not None:
            head["past"] = await sources.past.of_node(name, window)
        return Report(head, objects={"policies": policies})
