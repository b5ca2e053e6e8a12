"""Reports on policies: the overview, one policy, and the metrics that policies use, with failing rules."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from evaluator.core.cache.policy_pods import policy_of
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import NodeIndex
from evaluator.core.model.pod import Pod
from evaluator.core.pages.facts import joined
from evaluator.core.pages.section import SHOWN, PageError, Report
from evaluator.core.pages.window import Window
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.features.pages.explain import metrics as explain_metrics
from evaluator.features.pages.explain import (
    overview,
    states,
    wording,
)
from evaluator.features.pages.explain import policy as explain
from evaluator.features.pages.explain.pod_summary import attempt
from evaluator.features.pages.sources import PageSources
from plimsoll import VERSION
from plimsoll.http.pieces import stepwise, unhurried
from plimsoll.text import counted

_MOST_PODS = 1_000
"""Pods listed for a namespace."""
_PODS = 50
"""Pods listed for a policy."""
_RECENT = 600.0
"""Seconds for which a restart of the agents' port needs attention."""


class PolicyReports:
    """Builds the reports. Each method must be called by one page at a time."""

    def __init__(self, sources: PageSources) -> None:
        self._sources = sources
        self._decider = sources.decider
        self._cluster = sources.cluster

    async def listed(self, namespace: str, see: Mapping[str, str]) -> Report:
        """List the policies and, for one namespace, the pods that name one."""
        decisions = self._decider.latest
        known = {
            key: decision
            for key, decision in decisions.policies.items()
            if namespace in {"", key.namespace}
        }
        rows = await unhurried(explain.overview(known, decisions.table))
        for key, row in zip(known, rows, strict=False):  # the rows end at a limit
            row.update(self._of_features(known[key]))
        head = {
            **self._sources.waiting(),
            "nodeCount": len(decisions.table.nodes),
            "agentsPort": self._agents_port(),
        }
        if (more := len(known) - len(rows)) > 0:
            head["policiesMore"] = more
        if not namespace:
            return Report({**head, "see": see}, arrays={"policies": rows})
        pods = await unhurried(itertools.islice(self._pods_of(namespace), _MOST_PODS))
        if not rows and not pods:
            raise PageError(
                f"namespace {namespace[:SHOWN]} has no policy and no pod that names one; "
                "/explain lists all policies"
            )
        return Report({"namespace": namespace, **head}, arrays={"policies": rows, "pods": pods})

    def _pods_of(self, namespace: str) -> Iterator[dict[str, Any]]:
        for (of, _), pod in tuple(self._cluster.pods.objects.items()):
            if of == namespace:
                yield {"pod": str(pod), "explain": f"/explain?pod={pod}", **about(pod)}

    def _of_features(self, decision: Decision) -> dict[str, Any]:
        """Return what features show of a policy in a list, and its problems with theirs."""
        facts = joined(part.listed(decision) for part in self._sources.parts())
        return {**facts, "problems": self._sources.problems(decision)}

    async def overview(self, window: Window) -> Report:
        """Report on this replica and on the policies of a page."""
        decisions = self._decider.latest
        known = [key for key in decisions.policies if window.covers(key.namespace)]
        keys = overview.matching(known, window.search)
        shown = window.of(keys)
        with self._decider.readings() as readings:
            rows = await stepwise(
                overview.policies(decisions, shown, readings, now=self._sources.clock())
            )
        for key, row in zip(shown, rows, strict=True):
            row.update(self._of_features(decisions.policies[key]))
        past = self._sources.past
        head = {
            **self._sources.waiting(),
            "nodeCount": len(decisions.table.nodes),
            "attention": await self._attention(decisions, known),
            "evaluator": self._evaluator(),
            "apiServer": self._api_server(),
            "window": window.described(len(keys), len(known)),
            **({"past": await past.of_all(window)} if past else {}),
        }
        return Report(head, arrays={"policies": rows})

    async def _attention(self, decisions: Decisions, known: Sequence[PolicyKey]) -> list[str]:
        """Return what needs attention, each as a phrase; nothing if all is well."""
        sources, nodes = self._sources, len(decisions.table.nodes)
        found = await stepwise(overview.attention(decisions, known, sources.problems))
        if (agents := sources.agents()) is not None and agents < nodes:
            found.append(f"{nodes - agents} of {counted(nodes, 'node')} without a connected agent")
        if not (sources.is_leader() or sources.leader()):
            found.append("no leader is known")
        port = self._agents_port()
        if port and port["restarts"] and port["lastRestartSeconds"] < _RECENT:
            found.append(f"the agents' port restarted ({port['reason']})")
        stale = [one["kind"] for one in self._api_server() if one["stale"]]
        return found + [f"the watch of {kind} is stale" for kind in stale]

    def _evaluator(self) -> dict[str, Any]:
        sources = self._sources
        return {
            "version": VERSION,
            "leads": sources.is_leader(),
            "leader": sources.leader(),
            "agents": sources.agents(),
            "agentsPort": self._agents_port(),
            "sources": list(sources.readings_from),
            **joined(part.evaluator() for part in sources.parts()),
        }

    def _agents_port(self) -> dict[str, Any] | None:
        """Return the number of restarts of the agents' port, the seconds since the last one and its reason."""
        if (restarts := self._sources.port_restarts) is None:
            return None
        ago, reason = None, None
        if restarts.count:
            ago = round(max(0.0, self._sources.clock() - restarts.at), 3)
            reason = restarts.reason
        return {"restarts": restarts.count, "lastRestartSeconds": ago, "reason": reason}

    def _api_server(self) -> list[dict[str, Any]]:
        """Return for how long each watch has received nothing; null if it never did."""
        staleness, now = self._cluster.staleness, self._sources.clock()
        ages = {kind: staleness.age(kind, now) for kind in staleness.kinds}
        return [
            {
                "kind": kind,
                "silentSeconds": None if age is None else round(max(0.0, age), 3),
                "stale": staleness.is_stale(kind, now),
            }
            for kind, age in ages.items()
        ]

    async def policy(self, key: PolicyKey, node: str = "") -> Report:
        """Report on a policy with all nodes, or with one."""
        decisions = self._decider.latest
        if node and node not in decisions.table.nodes.position:
            raise PageError(f"no node {node[:SHOWN]}")
        explained = await self._explained(decisions, key, node=node)
        decision, sources = decisions.policies[key], self._sources
        head = {
            **sources.waiting(),
            **explained.head,
            "problems": sources.problems(decision),
            **joined(part.policy(decision) for part in sources.parts()),
        }
        return Report(head, objects={"nodes": explained.nodes})

    async def policy_page(self, key: PolicyKey, window: Window) -> Report:
        """Report on a policy with the nodes that differ: those of a page."""
        decisions, sources = self._decider.latest, self._sources
        if (decision := decisions.policies.get(key)) is None:
            raise self._unknown(key)
        names = decisions.table.nodes
        codes = await stepwise(states.states_of(decision, decisions.table))
        positions = await stepwise(states.chosen(codes, names, window))
        shown = NodeIndex(names[position] for position in window.of(positions.tolist()))
        explained = await self._explained(decisions, key, shown=shown)
        entries = await stepwise(
            states.with_states(
                explained.nodes,
                decision,
                codes,
                names,
                self._cluster.nodes.objects,
                sources.since,
                sources.written_for,
                now=sources.clock(),
            )
        )
        head = {
            **sources.waiting(),
            **{name: value for name, value in explained.head.items() if name != "nodesMore"},
            **states.head(codes, window, len(positions)),
            "problems": sources.found_problems(decision),
            "status": wording.status(self._cluster.status_of(key)),
            **joined(part.policy(decision) for part in sources.parts()),
            **self._pods(key),
            **({"past": await sources.past.of_policy(key, window)} if sources.past else {}),
        }
        return Report(head, objects={"nodes": entries})

    def _pods(self, key: PolicyKey) -> dict[str, Any]:
        waiting, running = self._cluster.waiting.pods_of(key), self._cluster.running.pods_of(key)
        some = itertools.islice(itertools.chain(waiting, running), _PODS)
        listed = [{"pod": str(pod), **about(pod)} for pod in some]
        more = len(waiting) + len(running) - len(listed)
        return {"pods": listed, **({"podsMore": more} if more else {})}

    async def _explained(
        self,
        decisions: Decisions,
        key: PolicyKey,
        *,
        node: str = "",
        shown: NodeIndex | None = None,
    ) -> explain.Explanation:
        sources = self._sources
        effects = tuple(sources.effects())
        for effect in effects:
            await unhurried(effect.catching_up(decisions))
        with self._decider.readings() as readings:
            explanation = await stepwise(
                explain.explain(
                    decisions,
                    key,
                    readings,
                    now=sources.clock(),
                    effects=effects,
                    node=node,
                    shown=shown,
                    cause_of=sources.causes.of,
                )
            )
        if explanation is None:
            raise self._unknown(key)
        return explanation

    def _unknown(self, key: PolicyKey) -> PageError:
        known = self._sources.known(key.namespace)
        return PageError(f"no policy {key}; known in this namespace: {known}")

    async def metrics(self, metrics: Sequence[str]) -> Report:
        """Report on which nodes have some metrics, as far as policies already use them."""
        if len(metrics) > explain_metrics.MOST:
            raise PageError(f"at most {explain_metrics.MOST} metrics", HTTPStatus.BAD_REQUEST)
        names = dict.fromkeys(name[:SHOWN] for name in metrics)
        table = self._decider.latest.table
        explained = explain_metrics.explain(names, table, self._decider.similar.to)
        head = {**self._sources.waiting(), "nodeCount": len(table.nodes)}
        return Report(head, objects={"metrics": explained})

    async def rules(self, window: Window) -> Report:
        """Report on the rules that fail on nodes, and the metrics that policies use: those that cannot be read first."""
        decisions = self._decider.latest
        counts = await stepwise(explain_metrics.counts_by_state(decisions))
        wanted = [metric for metric in counts if window.search in metric]
        if window.state in explain_metrics.STATES:
            wanted = [metric for metric in wanted if counts[metric][window.state]]
        shown = window.of(wanted)
        rows = await unhurried(
            explain_metrics.rows(decisions, counts, shown, self._decider.similar.to)
        )
        sources = self._sources
        failing = await stepwise(
            explain_metrics.listed_failures(sources.failing_rules, window.search, sources.clock())
        )
        head = {
            **sources.waiting(),
            "nodeCount": len(decisions.table.nodes),
            "failing": failing.counts,
            "window": window.described(len(wanted), len(counts)),
        }
        return Report(head, objects={"metrics": rows}, arrays={"failingRules": failing.rows})


def about(pod: Pod) -> dict[str, Any]:
    """Return what lists of pods show of one."""
    return {
        "policy": str(policy_of(pod)),
        "phase": pod.status.phase,
        "node": pod.spec.node_name or None,
        **attempt(pod),
    }
