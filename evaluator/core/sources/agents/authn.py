"""Authorizes agents: a client certificate or token must name the node, and the node must exist."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc

from evaluator.core.access.user import InvalidTokenError, UnreviewedError
from evaluator.core.sources.agents import identity
from evaluator.core.sources.agents.token_review import TokenAuthenticator

Context = grpc.aio.ServicerContext[Any, Any]
Code = grpc.StatusCode


@dataclass(frozen=True, slots=True)
class StreamRejection:
    """The status and message with which a stream is ended."""

    code: grpc.StatusCode
    sentence: str


Check = Callable[[str, Context], Awaitable[StreamRejection | None]]
"""Returns why a client may not report for a node; None if it may."""


async def allow_all(_node: str, _context: Context) -> StreamRejection | None:
    """Admit every client, on a port without TLS."""
    return None


async def by_certificate(node: str, context: Context) -> StreamRejection | None:
    """Require that the common name or a DNS name of the client certificate, verified by gRPC, is the node's name.

    gRPC for Python cannot turn session tickets off, and a resumed session skips the verification: an expired certificate
    would be let in.
    """
    auth = context.auth_context()
    if identity.is_resumed(auth):
        return StreamRejection(
            Code.UNAUTHENTICATED, "a resumed TLS session: the client certificate was not verified"
        )
    names = identity.certified(auth)
    if node in names:
        return None
    named = ", ".join(sorted(names)) or "no name"
    return StreamRejection(
        Code.PERMISSION_DENIED, f"the client certificate is for {named[:300]}, not for node {node}"
    )


def by_token(authenticator: TokenAuthenticator) -> Check:
    """Return a check that the token in the metadata is bound to the node."""

    async def check(node: str, context: Context) -> StreamRejection | None:
        metadata = context.invocation_metadata() or ()
        try:
            own = await authenticator.node_of(identity.bearer(metadata), context.peer())
        except InvalidTokenError as error:
            return StreamRejection(Code.UNAUTHENTICATED, str(error))
        except UnreviewedError as error:
            return StreamRejection(Code.UNAVAILABLE, str(error))
        if own != node:
            return StreamRejection(
                Code.PERMISSION_DENIED, f"the token is for node {own}, not for {node}"
            )
        return None

    return check


class Authorizer:
    """Authorizes a stream when it begins, and checks with each report that its node exists.

    `exists` must return True while nodes are not synced.
    """

    def __init__(
        self, check: Check = allow_all, *, exists: Callable[[str], bool] = lambda _node: True
    ) -> None:
        self._check = check
        self._exists = exists

    async def admit(self, node: str, context: Context) -> StreamRejection | None:
        """Return why this client may not report for this node; None if it may."""
        return await self._check(node, context) or self.missing(node)

    def missing(self, node: str) -> StreamRejection | None:
        """Return the rejection for a node that does not exist; None if it does."""
        if self._exists(node):
            return None
        return StreamRejection(Code.NOT_FOUND, f"there is no node {node} in the cluster")
