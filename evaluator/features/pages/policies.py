"""Reports on policies: the overview, one policy, and the metrics that policies use, with failing rules."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import TypeVar

from msgspec import UNSET

from evaluator.core.cache.policy_pods import policy_of
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import NodeIndex
from evaluator.core.model.pod import Pod
from evaluator.core.page_fields import Maybe, extended
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
from evaluator.features.pages.kinds import (
    AgentsPort,
    Evaluator,
    ListedPod,
    ListedPolicy,
    MetricList,
    Overview,
    PolicyHead,
    PolicyList,
    PolicyPage,
    RulesPage,
    Watch,
)
from evaluator.features.pages.sources import PageSources
from plimsoll import VERSION
from plimsoll.http.pieces import stepwise, unhurried
from plimsoll.text import counted

P = TypeVar("P", bound=ListedPolicy)

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
        listed = [  # the rows end at a limit
            self._extended(row, known[key]) for key, row in zip(known, rows, strict=False)
        ]
        head = PolicyList(
            waiting_for=self._sources.waiting(),
            node_count=len(decisions.table.nodes),
            agents_port=self._agents_port(),
            policies_more=len(known) - len(listed) or UNSET,
        )
        if not namespace:
            head.see = dict(see)
            return Report(head, arrays={"policies": listed})
        pods = await unhurried(itertools.islice(self._pods_of(namespace), _MOST_PODS))
        if not listed and not pods:
            raise PageError(
                f"namespace {namespace[:SHOWN]} has no policy and no pod that names one; "
                "/explain lists all policies"
            )
        head.namespace = namespace
        return Report(head, arrays={"policies": listed, "pods": pods})

    def _pods_of(self, namespace: str) -> Iterator[ListedPod]:
        for (of, _), pod in tuple(self._cluster.pods.objects.items()):
            if of == namespace:
                yield listed_pod(pod, explain=f"/explain?pod={pod}")

    def _extended(self, row: P, decision: Decision) -> P:
        """Return a policy of a list with what features show of it, and its problems and warnings with theirs."""
        row.problems = self._sources.problems(decision)
        row.warnings = self._sources.warnings(decision)
        return extended(row, *(part.listed(decision) for part in self._sources.parts()))

    async def overview(self, window: Window) -> Report:
        """Report on this replica and on the policies of a page."""
        decisions = self._decider.latest
        known = [key for key in decisions.policies if window.covers(key.namespace)]
        keys = overview.matching(known, window.search)
        shown = window.shown(keys)
        with self._decider.readings() as readings:
            rows = await stepwise(
                overview.policies(decisions, shown, readings, now=self._sources.clock())
            )
        listed = [
            self._extended(row, decisions.policies[key])
            for key, row in zip(shown, rows, strict=True)
        ]
        past = self._sources.past
        head = Overview(
            waiting_for=self._sources.waiting(),
            node_count=len(decisions.table.nodes),
            attention=await self._attention(decisions, known),
            evaluator=self._evaluator(window.namespace),
            api_server=self._api_server(),
            window=window.described(len(keys), len(known)),
        )
        head = extended(head, await past.of_all(window) if past else None)
        return Report(head, arrays={"policies": listed})

    async def _attention(self, decisions: Decisions, known: Sequence[PolicyKey]) -> list[str]:
        """Return what needs attention, each as a phrase; nothing if all is well."""
        sources, nodes = self._sources, len(decisions.table.nodes)
        found = await stepwise(overview.attention(decisions, known, sources.problems))
        if (agents := sources.agents()) is not None and agents < nodes:
            found.append(f"{nodes - agents} of {counted(nodes, 'node')} without a connected agent")
        if not (sources.is_leader() or sources.leader()):
            found.append("no leader is known")
        port = self._agents_port()
        if port and port.last_restart_seconds is not None and port.last_restart_seconds < _RECENT:
            found.append(f"the agents' port restarted ({port.reason})")
        stale = [one.kind for one in self._api_server() if one.stale]
        return found + [f"the watch of {kind} is stale" for kind in stale]

    def _evaluator(self, namespace: str) -> Evaluator:
        """Return what is known of this replica. What features add is about all namespaces: the page of one has none of it."""
        sources = self._sources
        own = Evaluator(
            version=VERSION,
            leads=sources.is_leader(),
            leader=sources.leader(),
            agents=sources.agents(),
            agents_port=self._agents_port(),
            sources=list(sources.readings_from),
        )
        return own if namespace else extended(own, *(part.evaluator() for part in sources.parts()))

    def _agents_port(self) -> AgentsPort | None:
        """Return the number of restarts of the agents' port, the seconds since the last one and its reason."""
        if (restarts := self._sources.port_restarts) is None:
            return None
        if not restarts.count:
            return AgentsPort(0, None, None)
        ago = round(max(0.0, self._sources.clock() - restarts.at), 3)
        return AgentsPort(restarts.count, ago, restarts.reason)

    def _api_server(self) -> list[Watch]:
        """Return for how long each watch has received nothing; null if it never did."""
        staleness, now = self._cluster.staleness, self._sources.clock()
        ages = {kind: staleness.age(kind, now) for kind in staleness.kinds}
        return [
            Watch(
                kind=kind,
                silent_seconds=None if age is None else round(max(0.0, age), 3),
                stale=staleness.is_stale(kind, now),
            )
            for kind, age in ages.items()
        ]

    async def policy(self, key: PolicyKey, node: str = "") -> Report:
        """Report on a policy with all nodes, or with one."""
        decisions = self._decider.latest
        if node and node not in decisions.table.nodes.position:
            raise PageError(f"no node {node[:SHOWN]}")
        explained = await self._explained(decisions, key, node=node)
        decision, sources = decisions.policies[key], self._sources
        head = explained.head
        head.waiting_for, head.problems = sources.waiting(), sources.problems(decision)
        head.warnings = sources.warnings(decision)
        head = extended(head, *(part.policy(decision) for part in sources.parts()))
        return Report(head, objects={"nodes": explained.nodes})

    async def policy_page(self, key: PolicyKey, window: Window) -> Report:
        """Report on a policy with the nodes that differ: those of a page."""
        decisions, sources = self._decider.latest, self._sources
        if (decision := decisions.policies.get(key)) is None:
            raise self._unknown(key)
        names = decisions.table.nodes
        codes = await stepwise(states.states_of(decision, decisions.table))
        positions = await stepwise(states.chosen(codes, names, window))
        shown = NodeIndex(names[position] for position in window.shown(positions.tolist()))
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
        waiting, running = self._cluster.waiting.pods_of(key), self._cluster.running.pods_of(key)
        pods = itertools.islice(itertools.chain(waiting, running), _PODS)
        head = PolicyPage(
            **{name: getattr(explained.head, name) for name in PolicyHead.__struct_fields__},
            states=states.counts(codes),
            strip=states.strip(codes),
            window=window.described(len(positions), len(codes)),
            status=wording.status(self._cluster.status_of(key)),
            pods=[listed_pod(pod) for pod in pods],
            pods_more=max(0, len(waiting) + len(running) - _PODS) or UNSET,
        )
        head.waiting_for, head.problems = sources.waiting(), sources.found_problems(decision)
        head.warnings = sources.warnings(decision)
        past = await sources.past.of_policy(key, window) if sources.past else None
        head = extended(head, *(part.policy(decision) for part in sources.parts()), past)
        return Report(head, objects={"nodes": entries})

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
                    cause_of=sources.causes.cause_of,
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
        head = MetricList(waiting_for=self._sources.waiting(), node_count=len(table.nodes))
        return Report(head, objects={"metrics": explained})

    async def rules(self, window: Window) -> Report:
        """Report on the rules that fail on nodes, and the metrics that policies use: those that cannot be read first."""
        decisions = self._decider.latest
        counts = await stepwise(explain_metrics.counts_by_state(decisions))
        wanted = [metric for metric in counts if window.search in metric]
        if window.state in explain_metrics.STATES:
            wanted = [metric for metric in wanted if counts[metric][window.state]]
        shown = window.shown(wanted)
        rows = await unhurried(
            explain_metrics.rows(decisions, counts, shown, self._decider.similar.to)
        )
        sources = self._sources
        failing = await stepwise(
            explain_metrics.listed_failures(sources.failing_rules, window.search, sources.clock())
        )
        head = RulesPage(
            waiting_for=sources.waiting(),
            node_count=len(decisions.table.nodes),
            failing=failing.counts,
            window=window.described(len(wanted), len(counts)),
        )
        return Report(head, objects={"metrics": rows}, arrays={"failingRules": failing.rows})


def listed_pod(pod: Pod, *, explain: Maybe[str] = UNSET) -> ListedPod:
    """Return what lists of pods show of one; `explain`: the path of its explanation."""
    failed = attempt(pod)
    return ListedPod(
        pod=str(pod),
        explain=explain,
        policy=str(policy_of(pod)),
        phase=pod.status.phase,
        node=pod.spec.node_name or None,
        scheduler_reason=failed.reason,
        scheduler_message=failed.message,
        requests_decide=failed.requests_decide or UNSET,
    )
