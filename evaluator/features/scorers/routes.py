"""Serves a filter and scores for each scorer, under two kinds of paths.

/scorers/<scorer>/filter, /prioritize and /preempt make each scorer a separate extender; /scheduler/predicates/<predicate> and
/scheduler/priorities/<priority> are the paths of kube-safe-scheduler.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

from evaluator.core import preemption, protocol
from evaluator.core.http.responses import ErrorResponder, RouteGroup
from evaluator.core.policy.decide import NotReadyError
from evaluator.core.preemption import PreemptionArgs
from evaluator.core.protocol import Args, Body
from evaluator.features.scorers import runner
from evaluator.features.scorers.runner import (
    CachedResult,
    ScorerError,
    ScorerRunner,
    ScoringMetrics,
)
from plimsoll import VERSION, logs
from plimsoll.http.routes import Route
from plimsoll.http.types import Parts, RejectedRequestError, Request, Response

log = logs.get(__name__)

_JSON = "application/json"
_PREDICATES, _PRIORITIES, _SCORERS = "/scheduler/predicates/", "/scheduler/priorities/", "/scorers/"
_POST = ("POST",)
_SHOWN = 100
"""Characters of a path repeated in an error."""
_FILTER, _PRIORITIZE, _PREEMPT = "filter", "prioritize", "preempt"

_STATUSES: Mapping[type[Exception], HTTPStatus] = {
    protocol.BadRequestError: HTTPStatus.BAD_REQUEST,
    NotReadyError: HTTPStatus.SERVICE_UNAVAILABLE,
    ScorerError: HTTPStatus.INTERNAL_SERVER_ERROR,
}


@dataclass(frozen=True, slots=True)
class ScorerRequest:
    """The target of a path. `name` is a predicate or priority; None if the scorer has none."""

    scorer: str
    verb: str
    name: str | None


class ScorerRoutes:
    """Serves all scorers of a runner, or the one that has its own port."""

    def __init__(
        self, runner: ScorerRunner, metrics: ScoringMetrics, *, only: str | None = None
    ) -> None:
        self._runner = runner
        self._metrics = metrics
        self._errors = ErrorResponder()
        self._requests = {
            path: target
            for name, scorer in runner.scorers.items()
            if only in (None, name)
            for path, target in _paths(name, scorer.predicates, scorer.priorities).items()
        }

    def groups(self) -> tuple[RouteGroup, RouteGroup]:
        """Return the routes of predicates and priorities, and further ones: for an unknown scorer, the error lists the known ones."""
        unknown = Route(self._unknown, _POST)
        further = {
            **dict.fromkeys((_PREDICATES, _PRIORITIES, _SCORERS), unknown),
            "/scheduler/bind": Route(_bind, _POST),
            "/version": Route(_version),
        }
        known = dict.fromkeys(self._requests, Route(self._serve, _POST))
        return RouteGroup(known, self.refuse), RouteGroup(further)

    def refuse(self, error: RejectedRequestError, request: Request | None) -> Response:
        """Return an error as JSON that kube-scheduler shows, also for unknown paths and methods."""
        target = self._requests.get(request.path if request else "", _OTHER)
        self._count(target, error.status, "refused")
        return self._errors.answer(f"{target.scorer} {target.verb}", error, request)

    def _count(self, target: ScorerRequest, status: HTTPStatus, result: str) -> None:
        self._metrics.scorer_requests.labels(target.scorer, target.verb, int(status), result).inc()

    async def _serve(self, request: Request) -> Response:
        target = self._requests[request.path]
        try:
            args, answer = _READERS[target.verb](request.body)
            pod = protocol.pod_view(args)
            if waiting := self._runner.waiting_for:
                raise NotReadyError(f"not ready: waiting for {', '.join(waiting)}")
            cached = self._runner.run(target.scorer, pod)
        except tuple(_STATUSES) as error:
            return self.refuse(RejectedRequestError(_STATUSES[type(error)], str(error)), request)
        self._count(target, HTTPStatus.OK, "remembered" if cached.remembered else "assessed")
        return Response(HTTPStatus.OK, answer(target, cached), _JSON)

    async def _unknown(self, request: Request) -> Response:
        prefix = next(p for p in (_PREDICATES, _PRIORITIES, _SCORERS) if request.path.startswith(p))
        known = [path.removeprefix(prefix) for path in self._requests if path.startswith(prefix)]
        text = f"{request.path[:_SHOWN]}: not found; known below {prefix}: {', '.join(known)}"
        return self.refuse(RejectedRequestError(HTTPStatus.NOT_FOUND, text), request)


_OTHER = ScorerRequest("other", "other", None)


def _paths(
    scorer: str, predicates: Sequence[str], priorities: Sequence[str]
) -> Mapping[str, ScorerRequest]:
    def first(names: Sequence[str]) -> str | None:
        return names[0] if names else None

    return {
        f"{_SCORERS}{scorer}/filter": ScorerRequest(scorer, _FILTER, first(predicates)),
        f"{_SCORERS}{scorer}/prioritize": ScorerRequest(scorer, _PRIORITIZE, first(priorities)),
        f"{_SCORERS}{scorer}/preempt": ScorerRequest(scorer, _PREEMPT, first(predicates)),
        **{f"{_PREDICATES}{name}": ScorerRequest(scorer, _FILTER, name) for name in predicates},
        **{f"{_PRIORITIES}{name}": ScorerRequest(scorer, _PRIORITIZE, name) for name in priorities},
    }


Answer = Callable[[ScorerRequest, CachedResult], bytes | Parts]
"""Returns the body of a response."""


def _read_filter(body: Body) -> tuple[Args, Answer]:
    args = protocol.decode(body)
    return args, partial(_filter, args)


def _read_prioritize(body: Body) -> tuple[Args, Answer]:
    args = protocol.decode(body)
    return args, partial(_prioritize, args)


def _read_preempt(body: Body) -> tuple[Args, Answer]:
    request = preemption.decode(body)
    return request.args, partial(_preempt, request)


_READERS: Mapping[str, Callable[[Body], tuple[Args, Answer]]] = {
    _FILTER: _read_filter,
    _PRIORITIZE: _read_prioritize,
    _PREEMPT: _read_preempt,
}
"""Decode a request, by verb; they raise BadRequestError."""


def _refused(target: ScorerRequest, args: Args, cached: CachedResult) -> Mapping[str, str]:
    refusals = cached.result.refusals.get(target.name, ()) if target.name else ()
    failed = runner.refused(cached.view.nodes, refusals, args.names)
    log.info(
        "%s for %s: %d of %d pass",
        "Filtered nodes" if target.verb == _FILTER else "Candidates for preemption",
        target.scorer,
        len(args.names) - len(failed),
        len(args.names),
        pod=f"{args.namespace}/{args.pod}",
        predicate=target.name,
    )
    return failed


def _filter(args: Args, target: ScorerRequest, cached: CachedResult) -> Parts:
    reply = protocol.encode_filter(args, _refused(target, args, cached))
    return Parts(reply.size, reply.parts)


def _preempt(request: PreemptionArgs, target: ScorerRequest, cached: CachedResult) -> bytes:
    return preemption.encode(request.victims, _refused(target, request.args, cached))


def _prioritize(args: Args, target: ScorerRequest, cached: CachedResult) -> bytes:
    scores = cached.result.scores.get(target.name) if target.name else None
    if scores is None:
        return protocol.NO_PRIORITIES
    return protocol.encode_priorities(runner.scored(cached.view.nodes, scores, args.names))


async def _bind(_request: Request) -> Response:
    """Called only if the extender's configuration has a bindVerb, which is a mistake."""
    sentence = "binding is not done here: leave bindVerb out of the extender's configuration"
    return Response(HTTPStatus.OK, protocol.encode_error(sentence), _JSON)


async def _version(_request: Request) -> Response:
    return Response(HTTPStatus.OK, f"{VERSION}\n".encode())
