"""What the scheduler's port answers: bytes in, one look at the current decisions, bytes out. Never an empty answer."""

import time
from collections.abc import Callable, Mapping
from http import HTTPStatus

from evaluator.extender import codec, verbs
from evaluator.extender.errors import ErrorResponder
from evaluator.extender.scorers import ScorerRoutes
from evaluator.metrics import Metrics
from evaluator.policy import decide
from evaluator.policy.decide import Decisions
from evaluator.scoring.derived import DerivedMetricError
from plimsoll import logs
from plimsoll.http.routes import Route, Routes
from plimsoll.http.types import Parts, RejectedRequestError, Request, Response

log = logs.get(__name__)

_JSON = "application/json"
_NAMED = 10
"""Nodes that a log line names; of more it tells how many."""

Answer = tuple[verbs.Result, bytes | Parts]
Verb = Callable[[codec.Args, Decisions], Answer]

_REFUSALS: Mapping[type[Exception], HTTPStatus] = {
    codec.BadRequestError: HTTPStatus.BAD_REQUEST,
    decide.NotReadyError: HTTPStatus.SERVICE_UNAVAILABLE,
    DerivedMetricError: HTTPStatus.INTERNAL_SERVER_ERROR,
}


class PolicyVerbs:
    """Answers /scheduler/filter and /scheduler/prioritize from whatever `decisions()` returns at that moment.

    `decisions` raises verbs.NotReadyError while there is nothing to decide on. `bind` is not ours, and says so as TAS
    does: 404. With `scoring`, its routes are answered too.
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
        self._complaints = ErrorResponder()
        self._scoring = scoring
        self._verbs: Mapping[str, tuple[str, Verb]] = {
            "/scheduler/filter": ("filter", self._filter),
            "/scheduler/prioritize": ("prioritize", self._prioritize),
        }
        post = Route(self._ask, ("POST",))
        routes = dict.fromkeys(self._verbs, post) | (scoring.routes() if scoring else {})
        found = Routes(routes, self.refuse)
        self.answer, self.check = found.answer, found.check

    def refuse(self, refused: RejectedRequestError, request: Request | None) -> Response:
        """Every refusal is JSON that kube-scheduler can show, also where there is no such path or method."""
        if self._scoring and request and self._scoring.has(request.path):
            return self._scoring.refuse(refused, request)
        verb, _ = self._verbs.get(request.path if request else "", ("other", None))
        self._metrics.requests.labels(verb, int(refused.status), "refused").inc()
        return self._complaints.answer(verb, refused, request)

    async def _ask(self, request: Request) -> Response:
        name, verb = self._verbs[request.path]
        begin = time.perf_counter()
        try:
            outcome, body = verb(codec.decode(request.body), self._decisions())
        except tuple(_REFUSALS) as error:
            return self.refuse(RejectedRequestError(_REFUSALS[type(error)], str(error)), request)
        self._metrics.request_seconds.labels(name).observe(time.perf_counter() - begin)
        self._metrics.requests.labels(name, 200, outcome).inc()
        return Response(HTTPStatus.OK, body, _JSON)

    def _filter(self, args: codec.Args, decisions: Decisions) -> Answer:
        answer = verbs.answer_filter(args, decisions, self._for_pod)
        self._metrics.filtered_nodes.inc(len(answer.failed))
        pod = f"{args.namespace}/{args.pod}"
        if answer.outcome is verbs.Result.DECIDED:
            told = _passing(args, answer.failed)
            log.info(
                "Filtered nodes for %s: %s", answer.policy, told, pod=pod, policy=answer.policy
            )
        else:
            log.info("All nodes pass", pod=pod, policy=answer.policy, why=answer.outcome.value)
        reply = codec.encode_filter(args, answer.failed)
        return answer.outcome, Parts(reply.size, reply.parts)

    def _prioritize(self, args: codec.Args, decisions: Decisions) -> Answer:
        answer = verbs.answer_prioritize(args, decisions, self._for_pod)
        if answer.outcome is not verbs.Result.DECIDED:
            pod = f"{args.namespace}/{args.pod}"
            log.info("No node preferred", pod=pod, policy=answer.policy, why=answer.outcome.value)
        return answer.outcome, codec.encode_priorities(answer.scores)


def _passing(args: codec.Args, failed: Mapping[str, str]) -> str:
    """The nodes that pass, as users of TAS know the line; a line of thousands of names would help nobody."""
    if len(args.names) <= _NAMED:
        return " ".join(name for name in args.names if name not in failed) or "none"
    return f"{len(args.names) - len(failed)} of {len(args.names)} nodes"
