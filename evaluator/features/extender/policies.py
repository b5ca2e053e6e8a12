"""Serves the filter and prioritize verbs from the current decisions, over HTTP."""

import time
from collections.abc import Callable, Mapping
from http import HTTPStatus

from evaluator.core.metrics import Metrics
from evaluator.core.policy import decide
from evaluator.core.policy.decide import Decisions
from evaluator.core.protocol import codec
from evaluator.core.protocol.errors import ErrorResponder
from evaluator.features.extender import verbs
from evaluator.features.scorers.derived import DerivedMetricError
from evaluator.features.scorers.routes import ScorerRoutes
from plimsoll import logs
from plimsoll.http.routes import Route, Routes
from plimsoll.http.types import Parts, RejectedRequestError, Request, Response

log = logs.get(__name__)

_JSON = "application/json"
_NAMED = 10
"""Nodes named in a log line; if there are more, they are counted."""

Answer = tuple[verbs.Result, bytes | Parts]
Verb = Callable[[codec.Args, Decisions], Answer]

_STATUSES: Mapping[type[Exception], HTTPStatus] = {
    codec.BadRequestError: HTTPStatus.BAD_REQUEST,
    decide.NotReadyError: HTTPStatus.SERVICE_UNAVAILABLE,
    DerivedMetricError: HTTPStatus.INTERNAL_SERVER_ERROR,
}


class PolicyVerbs:
    """Serves /scheduler/filter and /scheduler/prioritize from the current `decisions()`.

    `decisions` raises NotReadyError until the first decision. `bind` is not supported and returns 404, as in TAS. The
    routes of `scoring` are served too.
    """

    def __init__(
        self,
        decisions: Callable[[], Decisions],
        metrics: Metrics,
        *,
        for_pod: verbs.ForPod = verbs.for_any,
        scoring: ScorerRoutes | None = None,
    ) -> None:
        self._decisions = decisions
        self._metrics = metrics
        self._for_pod = for_pod
        self._errors = ErrorResponder()
        self._scoring = scoring
        self._verbs: Mapping[str, tuple[str, Verb]] = {
            "/scheduler/filter": ("filter", self._filter),
            "/scheduler/prioritize": ("prioritize", self._prioritize),
        }
        post = Route(self._serve, ("POST",))
        routes = dict.fromkeys(self._verbs, post) | (scoring.routes() if scoring else {})
        found = Routes(routes, self.refuse)
        self.answer, self.check = found.answer, found.check

    def refuse(self, error: RejectedRequestError, request: Request | None) -> Response:
        """Return an error as JSON that kube-scheduler shows, also for unknown paths and methods."""
        if self._scoring and request and self._scoring.has(request.path):
            return self._scoring.refuse(error, request)
        verb, _ = self._verbs.get(request.path if request else "", ("other", None))
        self._metrics.requests.labels(verb, int(error.status), "refused").inc()
        return self._errors.answer(verb, error, request)

    async def _serve(self, request: Request) -> Response:
        name, verb = self._verbs[request.path]
        begin = time.perf_counter()
        try:
            result, body = verb(codec.decode(request.body), self._decisions())
        except tuple(_STATUSES) as error:
            return self.refuse(RejectedRequestError(_STATUSES[type(error)], str(error)), request)
        self._metrics.request_seconds.labels(name).observe(time.perf_counter() - begin)
        self._metrics.requests.labels(name, 200, result).inc()
        return Response(HTTPStatus.OK, body, _JSON)

    def _filter(self, args: codec.Args, decisions: Decisions) -> Answer:
        answer = verbs.answer_filter(args, decisions, self._for_pod)
        self._metrics.filtered_nodes.labels("enforce").inc(len(answer.failed))
        self._metrics.filtered_nodes.labels("observe").inc(len(answer.observed))
        pod = f"{args.namespace}/{args.pod}"
        if answer.result is verbs.Result.DECIDED:
            passing = _passing(args, answer.failed)
            log.info(
                "Filtered nodes for %s: %s", answer.policy, passing, pod=pod, policy=answer.policy
            )
        else:
            log.info("All nodes pass", pod=pod, policy=answer.policy, why=answer.result.value)
        reply = codec.encode_filter(args, answer.failed)
        return answer.result, Parts(reply.size, reply.parts)

    def _prioritize(self, args: codec.Args, decisions: Decisions) -> Answer:
        answer = verbs.answer_prioritize(args, decisions, self._for_pod)
        if answer.result is not verbs.Result.DECIDED:
            pod = f"{args.namespace}/{args.pod}"
            log.info("No node preferred", pod=pod, policy=answer.policy, why=answer.result.value)
        return answer.result, codec.encode_priorities(answer.scores)


def _passing(args: codec.Args, failed: Mapping[str, str]) -> str:
    """Return the passing nodes as in TAS's log line; long lists are counted."""
    if len(args.names) <= _NAMED:
        return " ".join(name for name in args.names if name not in failed) or "none"
    return f"{len(args.names) - len(failed)} of {len(args.names)} nodes"
