"""Serves the filter, prioritize and preempt verbs from the current decisions, over HTTP."""

import time
from collections.abc import Callable, Mapping
from http import HTTPStatus

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from evaluator.core import preemption, protocol
from evaluator.core.http.responses import ErrorResponder, RouteGroup
from evaluator.core.model.names import PolicyKey
from evaluator.core.placement.placements import Placements
from evaluator.core.policy import decide
from evaluator.core.policy.decide import Decisions
from evaluator.core.protocol import Body, ForPod
from evaluator.core.signals import Answered, Publish, unheard
from evaluator.features.extender import verbs
from plimsoll import logs
from plimsoll.http.routes import Route
from plimsoll.http.types import Parts, RejectedRequestError, Request, Response

log = logs.get(__name__)

_JSON = "application/json"
_NAMED = 10
"""Nodes named in a log line; if there are more, they are counted."""

Answer = tuple[verbs.Result, bytes | Parts]
Verb = Callable[[Body], Answer]

_STATUSES: Mapping[type[Exception], HTTPStatus] = {
    protocol.BadRequestError: HTTPStatus.BAD_REQUEST,
    decide.NotReadyError: HTTPStatus.SERVICE_UNAVAILABLE,
    decide.PerPodError: HTTPStatus.INTERNAL_SERVER_ERROR,
}


class ExtenderMetrics:
    """The metrics of kube-scheduler's requests."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "plimsoll_extender_requests",
            "Requests of kube-scheduler by verb, HTTP status and outcome.",
            ["verb", "code", "outcome"],
            registry=registry,
        )
        self.request_seconds = Histogram(
            "plimsoll_extender_request_duration_seconds",
            "Time from a complete request to its response.",
            ["verb"],
            buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
            registry=registry,
        )
        self.filtered_nodes = Counter(
            "plimsoll_extender_filtered_nodes",
            "Nodes rejected by filter responses; with mode observe, nodes that an observed policy would reject.",
            ["mode"],
            registry=registry,
        )
        for mode in ("enforce", "observe"):
            self.filtered_nodes.labels(mode)
        self.preemption_nodes = Counter(
            "plimsoll_extender_preemption_nodes_refused",
            "Candidates for preemption that the pod's policy refuses: no pod is deleted there for it.",
            registry=registry,
        )
        self._placed = Gauge(
            "plimsoll_placed_pods",
            "Pods that count beside readings which may not include them yet: bound ones, and others for a second from an "
            "answer to kube-scheduler on.",
            registry=registry,
        )
        self._unconfirmed = Gauge(
            "plimsoll_placed_pods_unconfirmed",
            "Those of them that no binding confirmed yet.",
            registry=registry,
        )
        self._learned = Gauge(
            "plimsoll_placed_pods_learned",
            "Pairs of a policy and a metric for which it was learned what a pod adds to the metric.",
            registry=registry,
        )

    def count(self, placements: Placements) -> None:
        """Show how many pods count."""
        self._placed.set_function(placements.ledger.__len__)
        self._unconfirmed.set_function(placements.ledger.unconfirmed)
        self._learned.set_function(placements.learned.known)


class PolicyVerbs:
    """Serves /scheduler/filter, /scheduler/prioritize and /scheduler/preempt from the current `decisions()`.

    `decisions` raises NotReadyError until the first decision. `bind` is not supported and returns 404, as in TAS.
    """

    def __init__(
        self,
        decisions: Callable[[], Decisions],
        metrics: ExtenderMetrics,
        *,
        for_pod: ForPod = verbs.for_any,
        placements: Placements | None = None,
        clock: Callable[[], float] = time.monotonic,
        publish: Publish = unheard,
    ) -> None:
        """`placements`: the pods placed since the readings, on `clock`; None: they do not count."""
        self._publish = publish
        self._decisions = decisions
        self._metrics = metrics
        self._counting = verbs.CountingVerbs(placements, for_pod)
        self._clock = clock
        self._errors = ErrorResponder()
        self._verbs: Mapping[str, tuple[str, Verb]] = {
            "/scheduler/filter": ("filter", self._filter),
            "/scheduler/prioritize": ("prioritize", self._prioritize),
            "/scheduler/preempt": ("preempt", self._preempt),
        }
        self.routes = RouteGroup(
            dict.fromkeys(self._verbs, Route(self._serve, ("POST",))), self.refuse
        )

    def refuse(self, error: RejectedRequestError, request: Request | None) -> Response:
        """Return an error as JSON that kube-scheduler shows, also for unknown paths and methods."""
        verb, _ = self._verbs.get(request.path if request else "", ("other", None))
        self._metrics.requests.labels(verb, int(error.status), "refused").inc()
        return self._errors.answer(verb, error, request)

    async def _serve(self, request: Request) -> Response:
        name, verb = self._verbs[request.path]
        begin = time.perf_counter()
        try:
            result, body = verb(request.body)
        except tuple(_STATUSES) as error:
            status = next(s for kind, s in _STATUSES.items() if isinstance(error, kind))
            return self.refuse(RejectedRequestError(status, str(error)), request)
        self._metrics.request_seconds.labels(name).observe(time.perf_counter() - begin)
        self._metrics.requests.labels(name, 200, result).inc()
        return Response(HTTPStatus.OK, body, _JSON)

    def _filter(self, body: Body) -> Answer:
        args, decisions = protocol.decode(body), self._decisions()
        answer = self._counting.filter(args, decisions, self._clock())
        self._metrics.filtered_nodes.labels("enforce").inc(len(answer.failed))
        self._metrics.filtered_nodes.labels("observe").inc(len(answer.observed))
        pod = f"{args.namespace}/{args.pod}"
        refused = answer.failed or answer.observed
        if answer.result in {verbs.Result.DECIDED, verbs.Result.OBSERVED}:
            key = PolicyKey(args.namespace or "default", answer.policy)
            self._publish(Answered(pod, key, decisions, len(args.names), refused))
        if answer.result is verbs.Result.DECIDED:
            passing = _passing(args, answer.failed)
            log.info(
                "Filtered nodes for %s: %s", answer.policy, passing, pod=pod, policy=answer.policy
            )
        else:
            log.info("All nodes pass", pod=pod, policy=answer.policy, why=answer.result.value)
        reply = protocol.encode_filter(args, answer.failed)
        return answer.result, Parts(reply.size, reply.parts)

    def _prioritize(self, body: Body) -> Answer:
        args, decisions = protocol.decode(body), self._decisions()
        answer = self._counting.prioritize(args, decisions, self._clock())
        pod = f"{args.namespace}/{args.pod}"
        if answer.found is None:
            log.info("No node preferred", pod=pod, policy=answer.policy, why=answer.result.value)
            return answer.result, protocol.NO_PRIORITIES
        key = PolicyKey(args.namespace or "default", answer.policy)
        self._publish(Answered(pod, key, decisions, len(args.names), scores=answer.found))
        return answer.result, protocol.encode_priorities(answer.found)

    def _preempt(self, body: Body) -> Answer:
        request, decisions = preemption.decode(body), self._decisions()
        args = request.args
        answer = self._counting.preempt(args, decisions, self._clock())
        self._metrics.preemption_nodes.inc(len(answer.failed))
        log.info(
            "Candidates for preemption: %s",
            _passing(args, answer.failed),
            pod=f"{args.namespace}/{args.pod}",
            policy=answer.policy,
            why=answer.result.value,
        )
        return answer.result, preemption.encode(request.victims, answer.failed)


def _passing(args: protocol.Args, failed: Mapping[str, str]) -> str:
    """Return the passing nodes as in TAS's log line; long lists are counted."""
    if len(args.names) <= _NAMED:
        return " ".join(name for name in args.names if name not in failed) or "none"
    return f"{len(args.names) - len(failed)} of {len(args.names)} nodes"
