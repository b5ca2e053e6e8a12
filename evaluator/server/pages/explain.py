"""The pages below /explain: policies, pods, nodes and gangs as JSON."""

import itertools
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

import msgspec

from evaluator.cache.cluster import ClusterCache
from evaluator.cache.pods_by_policy import policy_of
from evaluator.engine.loop import DecisionLoop
from evaluator.gangs.core import explain as explaingang
from evaluator.gangs.core.explain import GangExplainer
from evaluator.model.names import PolicyKey
from evaluator.model.pod import Pod
from evaluator.model.pod_record import PodRecord
from evaluator.plans.enforcement import NO_EFFECTS, Effects
from evaluator.plans.explain import metrics as explain_metrics
from evaluator.plans.explain import nodes as explain_nodes
from evaluator.plans.explain import pod as explain_pod
from evaluator.plans.explain import policy as explain
from evaluator.plans.explain.pod import PodContext
from evaluator.policy.decide import Decision, Decisions
from evaluator.scorerhost import explain as explainscores
from evaluator.scorerhost.pod_explainer import PodExplainer
from evaluator.scorerhost.runner import ScorerError
from evaluator.server.pages.as_json import entry, error, page
from evaluator.server.pages.slices import WAITING, stepwise
from plimsoll.fairlock import FairLock
from plimsoll.http.pieces import unhurried
from plimsoll.http.types import Request, Response

_SHOWN = 400
"""Characters of a name shown in an error; names in Kubernetes are shorter."""
_LONGEST_PATH = 2_000
"""Longest path that is decoded; a namespace and a name have at most 506 characters."""
_NAMED = 10
"""Policies named in an error; others are counted."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
"""Names that a pod or a namespace can have."""
_MOST_PODS = 1_000
"""Pods listed for a namespace."""


class UnreadablePodError(Exception):
    """The API server did not return a pod; the message says why."""


ReadPod = Callable[[str, str], Awaitable[Pod | None]]
"""Returns the pod of a namespace and name from the API server, or None. Raises UnreadablePodError."""


async def _no_pod(_namespace: str, _name: str) -> Pod | None:
    return None


class ExplainPages:
    """/explain, /explain/<namespace>, /explain/<namespace>/<policy>, and /explain?pod=, ?node=, ?nodes=, ?metric= and ?gang=.

    `clock` is that of the decision loop. `read_pod` reads pods that are not cached: those without a policy. Without a
    value, `?gang=` shows all waiting gangs.
    """

    def __init__(
        self,
        decider: DecisionLoop,
        cluster: ClusterCache,
        *,
        clock: Callable[[], float],
        effects: Effects = NO_EFFECTS,
        read_pod: ReadPod = _no_pod,
        pod_explainer: PodExplainer | None = None,
        gang_explainer: GangExplainer | None = None,
    ) -> None:
        self._decider = decider
        self._cluster = cluster
        self._clock = clock
        self._effects = effects
        self._read_pod = read_pod
        self._pod_explainer = pod_explainer
        self._gang_explainer = gang_explainer
        self._making = FairLock(WAITING)
        self._reading = FairLock(WAITING)

    async def root(self, request: Request) -> Response:
        """Answer /explain."""
        query = request.query
        if pods := query.get("pod"):
            return await self._pod(pods[-1])
        if gangs := query.get("gang"):
            return await self._gang(gangs[-1])
        if nodes := query.get("node"):
            return await self._node(nodes[-1])
        if metrics := query.get("metric"):
            return await self._metrics(metrics)
        if "nodes" in query:
            return await self._nodes()
        return await self._overview()

    async def below(self, request: Request) -> Response:
        """Answer /explain/<namespace> and /explain/<namespace>/<policy>."""
        if len(request.path) > _LONGEST_PATH:
            return error("the name is too long for a policy")
        namespace, name = _names(request.path)
        if not namespace and not name:
            return await self.root(request)
        if not name:
            return await self._overview(namespace)
        return await self._policy(PolicyKey(namespace, name), request.query.get("node", ("",))[-1])

    async def _overview(self, namespace: str = "") -> Response:
        """List the policies and, for one namespace, the pods that name one."""

        async def build(decisions: Decisions) -> Response:
            known = {
                key: one
                for key, one in decisions.policies.items()
                if namespace in {"", key.namespace}
            }
            found = explain.overview(known, decisions.table)
            pieces = await unhurried(map(msgspec.json.encode, found))
            head = {**self._waiting(), "nodeCount": len(decisions.table.nodes)}
            if (more := len(known) - len(pieces)) > 0:
                head["policiesMore"] = more
            if not namespace:
                head["see"] = self._see()
                return page(head, policies=(b"[]", pieces))
            pods = await unhurried(itertools.islice(self._pods_of(namespace), _MOST_PODS))
            if not pieces and not pods:
                return error(
                    f"namespace {namespace[:_SHOWN]} has no policy and no pod that names one; "
                    f"policies: {self._known()}"
                )
            return page(
                {"namespace": namespace, **head}, policies=(b"[]", pieces), pods=(b"[]", pods)
            )

        return await self._made(build)

    async def _metrics(self, metrics: Sequence[str]) -> Response:
        """Which nodes have some metrics, as far as policies already use them."""
        if len(metrics) > explain_metrics.MOST:
            return error(f"at most {explain_metrics.MOST} metrics", HTTPStatus.BAD_REQUEST)
        names = dict.fromkeys(name[:_SHOWN] for name in metrics)

        async def build(decisions: Decisions) -> Response:
            table = decisions.table
            found = explain_metrics.explain(names, table, self._decider.similar.to)
            pieces = await unhurried(itertools.starmap(entry, found))
            head = {**self._waiting(), "nodeCount": len(table.nodes)}
            return page(head, metrics=(b"{}", pieces))

        return await self._made(build)

    def _see(self) -> dict[str, str]:
        pages = {
            "namespace": "/explain/<namespace>",
            "policy": "/explain/<namespace>/<policy>",
            "pod": "/explain?pod=<namespace>/<name>",
            "nodes": "/explain?nodes",
            "node": "/explain?node=<name>",
            "metric": "/explain?metric=<name>",
        }
        if self._gang_explainer is not None:
            pages |= {"gangs": "/explain?gang=", "gang": "/explain?gang=<namespace>/<podGroup>"}
        return pages

    def _pods_of(self, namespace: str) -> Iterator[bytes]:
        for (of, _), pod in tuple(self._cluster.pods.objects.items()):
            if of == namespace:
                yield msgspec.json.encode(
                    {
                        "pod": str(pod),
                        "explain": f"/explain?pod={pod}",
                        "policy": str(policy_of(pod)),
                        "phase": pod.status.phase,
                        "node": pod.spec.node_name or None,
                        "schedulerMessage": pod.unschedulable_because or None,
                    }
                )

    async def _policy(self, key: PolicyKey, node: str) -> Response:
        async def build(decisions: Decisions) -> Response:
            now = self._clock()
            if node and node not in decisions.table.nodes.position:
                return error(f"no node {node[:_SHOWN]}")
            await unhurried(self._effects.catching_up(decisions))
            with self._decider.readings() as readings:
                found = await stepwise(
                    explain.explain(
                        decisions, key, readings, now=now, effects=self._effects, node=node
                    )
                )
            if found is None:
                return error(f"no policy {key}; known: {self._known()}")
            pieces = await unhurried(itertools.starmap(entry, found.nodes))
            return page({**self._waiting(), **found.head}, nodes=(b"{}", pieces))

        return await self._made(build)

    async def _nodes(self) -> Response:
        async def build(decisions: Decisions) -> Response:
            found = await stepwise(explain_nodes.nodes(decisions))
            pieces = await unhurried(itertools.starmap(entry, found))
            return page(self._waiting(), nodes=(b"{}", pieces))

        return await self._made(build)

    async def _node(self, name: str) -> Response:
        async def build(decisions: Decisions) -> Response:
            now = self._clock()
            if name not in decisions.table.nodes.position:
                return error(f"no node {name[:_SHOWN]}")
            with self._decider.readings() as readings:
                found = explain_nodes.node(name, decisions, readings, now=now)
                pieces = await unhurried(itertools.starmap(entry, found))
            head = explain_nodes.head(name, self._cluster.nodes.objects.get(name), decisions)
            return page({**self._waiting(), **head}, policies=(b"{}", pieces))

        return await self._made(build)

    async def _pod(self, name: str) -> Response:
        """Why a pod waits: its policy, and what refuses it on each node; with scorers also their scores."""
        namespace, _, rest = name.partition("/")
        scorers = self._pod_explainer
        try:
            async with self._reading.hold():
                pod = await self._find(namespace, rest)
        except UnreadablePodError as failure:
            return error(str(failure), HTTPStatus.BAD_GATEWAY)
        if pod is None and scorers is not None and (waiting := scorers.waiting_for):
            sentence = f"waiting for {', '.join(waiting)}"
            return error(sentence, HTTPStatus.SERVICE_UNAVAILABLE)
        record = scorers.find(name) if scorers is not None and not scorers.waiting_for else None
        if pod is None and record is None:
            return error(f"no pod {name[:_SHOWN]} (written as <namespace>/<name>)")

        async def build(decisions: Decisions) -> Response:
            try:
                scores = await self._scores(record)
            except ScorerError as failure:
                return error(str(failure), HTTPStatus.INTERNAL_SERVER_ERROR)
            head, nodes = scores
            if pod is not None:
                found = await self._explained(decisions, pod, record, nodes)
                head = {**head, **found.head}
                merged = ((name, {**nodes.get(name, {}), **own}) for name, own in found.nodes)
                pieces = await unhurried(itertools.starmap(entry, merged))
            else:
                pieces = await unhurried(itertools.starmap(entry, nodes.items()))
            return page(head, nodes=(b"{}", pieces))

        return await self._made(build)

    async def _find(self, namespace: str, name: str) -> Pod | None:
        cached = self._cluster.pods.objects.get((namespace, name))
        if cached is not None or not (_NAME.fullmatch(namespace) and _NAME.fullmatch(name)):
            return cached
        return await self._read_pod(namespace, name)

    async def _scores(
        self, record: PodRecord | None
    ) -> tuple[dict[str, Any], Mapping[str, dict[str, Any]]]:
        """Return the scores of a pod, for the head and by node; empty without scorers. Raises ScorerError."""
        if record is None or self._pod_explainer is None:
            return {}, {}
        opinions = await unhurried(self._pod_explainer.opinions(record))
        found = explainscores.explain(record.view, opinions)
        head = {**found.head, **_placed(record.node)}
        if record.problems:
            head["problems"] = list(record.problems)
        return head, dict(await unhurried(found.nodes))

    async def _explained(
        self,
        decisions: Decisions,
        pod: Pod,
        record: PodRecord | None,
        scores: Mapping[str, dict[str, Any]],
    ) -> explain.Explanation:
        key = policy_of(pod)
        decision: Decision | None = decisions.policies.get(key) if key else None
        if decision and record is not None and self._pod_explainer is not None:
            for_pod = self._pod_explainer.policy_of(record)
            decision = for_pod[0] if for_pod else decision
        refused = {name: one["refusedBy"] for name, one in scores.items() if one["refusedBy"]}
        waiting = tuple(self._decider.waiting_for)
        context = PodContext(decisions, self._cluster.nodes.objects, decision, refused, waiting)
        with self._decider.readings() as readings:
            found = await stepwise(
                explain_pod.explain_pod(pod, context, readings, now=self._clock())
            )
        if gang := found.head.get("gang"):
            found.head.update(self._gang_state(gang))
        return found

    def _gang_state(self, name: str) -> dict[str, Any]:
        """Return why a gang waits; empty if this evaluator does not know."""
        gangs = self._gang_explainer
        if gangs is None or gangs.waiting_for() or (gang := gangs.find(name)) is None:
            return {}
        found = gangs.head(gang, ())
        return {"gangState": found["state"], "gangMessage": found["message"]}

    async def _gang(self, name: str) -> Response:
        """The state of a gang and the reason."""
        if (gang_explainer := self._gang_explainer) is None:
            return error("gangs are off (--gangs)")
        if waiting := gang_explainer.waiting_for():
            sentence = f"waiting for {', '.join(waiting)}"
            return error(sentence, HTTPStatus.SERVICE_UNAVAILABLE)
        if not name:
            return await self._queue(gang_explainer)
        if (gang := gang_explainer.find(name)) is None:
            return error(gang_explainer.unknown(name[:_SHOWN]))
        async with self._making.hold():
            line = await unhurried(gang_explainer.line(gang))
            await unhurried(gang_explainer.catching_up())
            fit = gang_explainer.fit(gang)
            nodes = await unhurried(itertools.starmap(entry, fit.nodes()))
            members = await unhurried(itertools.starmap(entry, explaingang.members(gang)))
            head = {**gang_explainer.head(gang, line), "fit": fit.shapes()}
            return page(head, members=(b"{}", members), nodes=(b"{}", nodes))

    async def _queue(self, gang_explainer: GangExplainer) -> Response:
        """All waiting gangs."""
        async with self._making.hold():
            waiting = await unhurried(gang_explainer.waiting())
            pieces = await unhurried(map(msgspec.json.encode, gang_explainer.queue(waiting)))
            head = {"waitingFor": list(gang_explainer.undecided())}
            return page(head, gangs=(b"[]", pieces))

    async def _made(self, build: Callable[[Decisions], Awaitable[Response]]) -> Response:
        """Build a page from the current decisions, one page at a time."""
        async with self._making.hold():
            return await build(self._decider.latest)

    def _known(self) -> str:
        policies = [str(key) for key in self._decider.latest.policies]
        more = f" and {len(policies) - _NAMED} more" if len(policies) > _NAMED else ""
        return (", ".join(policies[:_NAMED]) or "none") + more

    def _waiting(self) -> dict[str, Any]:
        return {"waitingFor": list(self._decider.waiting_for)}


def _names(path: str) -> tuple[str, str]:
    """The namespace and name in /explain/<namespace>/<name>."""
    namespace, _, name = path.removeprefix("/explain/").partition("/")
    return unquote(namespace), unquote(name)


def _placed(node: str) -> dict[str, str]:
    """The node of a pod, if it is bound."""
    if not node:
        return {}
    looked = "it is scored like a new pod: its requests and usage already count on that node"
    return {"node": node, "placed": looked}
