"""What the scheduler's port answers for scorers: a filter and scores for each, by two kinds of paths.

/scorers/<scorer>/filter and /prioritize make each scorer an extender of its own; /scheduler/predicates/<predicate> and
/scheduler/priorities/<priority> are the paths of kube-safe-scheduler.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from evaluator.extender import codec, podview
from evaluator.extender.errors import ErrorResponder
from evaluator.metrics import Metrics
from evaluator.policy.decide import NotReadyError
from evaluator.scorerhost.runner import CachedResult, ScorerError, ScorerRunner
from evaluator.scoring import results
from plimsoll import VERSION, logs
from plimsoll.http.routes import Route, Routes
from plimsoll.http.types import Parts, RejectedRequestError, Request, Response

log = logs.get(__name__)

_JSON = "application/json"
_PREDICATES, _PRIORITIES, _SCORERS = "/scheduler/predicates/", "/scheduler/priorities/", "/scorers/"
_POST = ("POST",)
_SHOWN = 100
"""Characters of a path that a refusal repeats."""
_FILTER, _PRIORITIZE = "filter", "prioritize"

_REFUSALS: Mapping[type[Exception], HTTPStatus] = {
    codec.BadRequestError: HTTPStatus.BAD_REQUEST,
    NotReadyError: HTTPStatus.SERVICE_UNAVAILABLE,
    ScorerError: HTTPStatus.INTERNAL_SERVER_ERROR,
}


@dataclass(frozen=True, slots=True)
class ScorerRequest:
    """What a path stands for. `name` is a predicate or a priority; None for a scorer that has none of these."""

    scorer: str
    verb: str
    name: str | None


class ScorerRoutes:
    """Answers for an assessor's scorers, or for the one whose port it is."""

    def __init__(self, runner: ScorerRunner, metrics: Metrics, *, only: str | None = None) -> None:
        self._runner = runner
        self._metrics = metrics
        self._complaints = ErrorResponder()
        self._asked = {
            path: asked
            for name, scorer in runner.scorers.items()
            if only in (None, name)
            for path, asked in _paths(name, scorer.predicates, scorer.priorities).items()
        }
        alone = Routes(self.routes(), self.refuse)
        self.answer, self.check = alone.answer, alone.check
        """What a port answers that is this one's alone."""

    def routes(self) -> dict[str, Route]:
        """By path. Where the end of one is not known here, the answer names those that are."""
        unknown = Route(self._unknown, _POST)
        return {
            **dict.fromkeys(self._asked, Route(self._ask, _POST)),
            **dict.fromkeys((_PREDICATES, _PRIORITIES, _SCORERS), unknown),
            "/scheduler/bind": Route(_bind, _POST),
            "/version": Route(_version),
        }

    def has(self, path: str) -> bool:
        """Whether this is the path of a predicate, or a priority, of ours."""
        return path in self._asked

    def refuse(self, refused: RejectedRequestError, request: Request | None) -> Response:
        """Every refusal is JSON that kube-scheduler can show, also where there is no such path or method."""
        asked = self._asked.get(request.path if request else "", _NOBODY)
        self._count(asked, refused.status, "refused")
        return self._complaints.answer(f"{asked.scorer} {asked.verb}", refused, request)

    def _count(self, asked: ScorerRequest, status: HTTPStatus, outcome: str) -> None:
        self._metrics.scorer_requests.labels(asked.scorer, asked.verb, int(status), outcome).inc()

    async def _ask(self, request: Request) -> Response:
        asked = self._asked[request.path]
        try:
            args = codec.decode(request.body)
            pod = podview.view(args)
            if waiting := self._runner.waiting_for:
                raise NotReadyError(f"not ready: waiting for {', '.join(waiting)}")
            cached = self._runner.run(asked.scorer, pod)
        except tuple(_REFUSALS) as error:
            return self.refuse(RejectedRequestError(_REFUSALS[type(error)], str(error)), request)
        self._count(asked, HTTPStatus.OK, "remembered" if cached.remembered else "assessed")
        answer = _filter if asked.verb == _FILTER else _prioritize
        return Response(HTTPStatus.OK, answer(asked, args, cached), _JSON)

    async def _unknown(self, request: Request) -> Response:
        below = next(p for p in (_PREDICATES, _PRIORITIES, _SCORERS) if request.path.startswith(p))
        here = [path.removeprefix(below) for path in self._asked if path.startswith(below)]
        text = f"{request.path[:_SHOWN]}: not on here; what is, below {below}: {', '.join(here)}"
        return self.refuse(RejectedRequestError(HTTPStatus.NOT_FOUND, text), request)


_NOBODY = ScorerRequest("other", "other", None)


def _paths(
    scorer: str, predicates: Sequence[str], priorities: Sequence[str]
) -> Mapping[str, ScorerRequest]:
    def first(names: Sequence[str]) -> str | None:
        return names[0] if names else None

    return {
        f"{_SCORERS}{scorer}/filter": ScorerRequest(scorer, _FILTER, first(predicates)),
        f"{_SCORERS}{scorer}/prioritize": ScorerRequest(scorer, _PRIORITIZE, first(priorities)),
        **{f"{_PREDICATES}{name}": ScorerRequest(scorer, _FILTER, name) for name in predicates},
        **{f"{_PRIORITIES}{name}": ScorerRequest(scorer, _PRIORITIZE, name) for name in priorities},
    }


def _filter(asked: ScorerRequest, args: codec.Args, cached: CachedResult) -> Parts:
    refusals = cached.result.refusals.get(asked.name, ()) if asked.name else ()
    failed = results.refused(cached.view.nodes, refusals, args.names)
    pod = f"{args.namespace}/{args.pod}"
    log.info(
        "Filtered nodes for %s: %d of %d pass",
        asked.scorer,
        len(args.names) - len(failed),
        len(args.names),
        pod=pod,
        predicate=asked.name,
    )
    reply = codec.encode_filter(args, failed)
    return Parts(reply.size, reply.parts)


def _prioritize(asked: ScorerRequest, args: codec.Args, cached: CachedResult) -> bytes:
    scores = cached.result.scores.get(asked.name) if asked.name else None
    if scores is None:
        return codec.encode_priorities(())
    return codec.encode_priorities(results.scored(cached.view.nodes, scores, args.names))


async def _bind(_request: Request) -> Response:
    """kube-scheduler asks this only where a configuration has a bindVerb, which is a mistake."""
    sentence = "binding is not done here: leave bindVerb out of the extender's configuration"
    return Response(HTTPStatus.OK, codec.encode_error(sentence), _JSON)


async def _version(_request: Request) -> Response:
    return Response(HTTPStatus.OK, f"{VERSION}\n".encode())
