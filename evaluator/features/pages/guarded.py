"""Parts of pages of which what one object raises is left out; the page says so, and the rest is shown."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any

from evaluator.core.http.responses import error
from evaluator.core.isolation import Part
from evaluator.core.model.node import Node
from evaluator.core.pages.part import PagePart
from evaluator.core.policy.decide import Decision
from plimsoll.fairlock import TooManyWaitError
from plimsoll.http.types import Handler, RejectedRequestError, Request, Response

LEFT_OUT = "something is left out: an internal error, which the evaluator's log has"


def guarded(parts: Sequence[PagePart], part: Part) -> list[PagePart]:
    """Return parts of pages whose functions return nothing about an object for which they raise, and a notice about that."""

    def left_out(_namespace: str = "") -> list[str]:
        return [LEFT_OUT] if part.failing else []

    notice = PagePart(notices=left_out)
    return [*(_guarded(one, part) for one in parts), notice]


def _guarded(given: PagePart, part: Part) -> PagePart:
    def safe(name: str, otherwise: Any = None) -> Callable[..., Any]:
        function = getattr(given, name)

        def call(*about: object) -> Any:
            owner = getattr(function, "__qualname__", repr(function))  # a partial has no name
            key = f"{name} {' '.join(map(_named, about))} of {owner}"
            return part.run(key, partial(function, *about), otherwise)

        return call

    return replace(
        given,
        evaluator=safe("evaluator"),
        notices=safe("notices", ()),
        policy=safe("policy"),
        listed=safe("listed"),
        node=safe("node"),
        written=safe("written"),
        written_for=safe("written_for"),
        pod=safe("pod"),
    )


def _named(about: object) -> str:
    """Return the name of a node, policy or pod."""
    if isinstance(about, Decision):
        return str(about.policy.key)
    return about.metadata.name if isinstance(about, Node) else str(about)


def answering(handler: Handler, part: Part) -> Handler:
    """Return a handler that answers 500, and notes why, where another one raises."""

    async def answer(request: Request) -> Response:
        passing = (TooManyWaitError, RejectedRequestError)
        with part.isolated(f"page {request.path[:100]}", passing=passing):
            return await handler(request)
        text = "an internal error: the evaluator's log has it"
        return error(text, HTTPStatus.INTERNAL_SERVER_ERROR)

    return answer
