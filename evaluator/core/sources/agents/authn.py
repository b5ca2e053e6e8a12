"""Authorizes agents: a client certificate or token must name the node, and the node must exist.

Tokens are authenticated by TokenReview. If the API server is unavailable, older results still count, so that agents that
reconnect during its outage are not lost.
"""

import re
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import unquote

from evaluator.core.access.authenticators import TokenReviewer
from evaluator.core.access.review_limits import ReviewLimits
from evaluator.core.access.user import InvalidTokenError, UnreviewedError
from evaluator.core.kube.transport import KubeError
from evaluator.core.model.api_status import TokenReview
from evaluator.core.model.pod import Pod
from evaluator.core.sources.agents.calls import Caller, Code
from evaluator.core.sources.agents.options import AgentOptions

_FRESH = 60.0
"""Seconds for which a result, positive or negative, is reused."""
_USABLE = 3600.0
"""Seconds for which a positive result counts while the API server is unavailable; kubelets renew tokens as often."""

KUBELET = "system:node:"
"""Prefix of the common name in certificates of kubelets; the node's name follows."""

_LONGEST_NAME = 253
_IS_SUBDOMAIN = re.compile(
    r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*"
).fullmatch

_NODE = "authentication.kubernetes.io/node-name"
_POD = "authentication.kubernetes.io/pod-name"
_POD_UID = "authentication.kubernetes.io/pod-uid"
_ACCOUNT = "system:serviceaccount:"


def is_node_name(text: str) -> bool:
    """Return whether the text is a valid node name: a lower-case DNS subdomain."""
    return len(text) <= _LONGEST_NAME and _IS_SUBDOMAIN(text) is not None


@dataclass(frozen=True, slots=True)
class Bound:
    """The object a token is bound to: a node, or (API servers before 1.30) a pod on it."""

    namespace: str
    node: str = ""
    pod: str = ""
    pod_uid: str = ""


def node_names(certified: Iterable[str]) -> frozenset[str]:
    """Return the nodes that the names of a client certificate stand for."""
    return frozenset(name.removeprefix(KUBELET) for name in certified) - {""}


def address(peer: str) -> str:
    """Return the IP address of a peer in gRPC's format, such as `ipv4:10.0.0.1:4711`; any other text is returned unchanged."""
    family, _, rest = unquote(peer).partition(":")
    return rest.rpartition(":")[0].strip("[]") if family in {"ipv4", "ipv6"} else peer


def bound(review: TokenReview, *, audience: str, account: str) -> Bound:
    """Return what an agent's token is bound to. `account`: `namespace/name` of the agents' ServiceAccount.

    Raises InvalidTokenError if the token is invalid, for another audience or account, or not bound to a node or pod.
    """
    if not review.authenticated:
        raise InvalidTokenError(f"the token is not valid: {review.error or 'no reason was given'}")
    # An API server without audience support returns none: then the token was not made for us.
    if audience not in (review.audiences or ()):
        raise InvalidTokenError(f"the token is not for the audience {audience}")
    user = review.user
    namespace, _, name = user.username.removeprefix(_ACCOUNT).partition(":")
    if user.username != f"{_ACCOUNT}{namespace}:{name}" or f"{namespace}/{name}" != account:
        raise InvalidTokenError(f"the token is {user.username}'s, not ServiceAccount {account}'s")
    extra = user.extra or {}
    node, pod, uid = (next(iter(extra.get(key) or ()), "") for key in (_NODE, _POD, _POD_UID))
    if not node and not (pod and uid):
        raise InvalidTokenError("the token is bound to neither a node nor a pod")
    return Bound(namespace, node, pod, uid)


class Authority(Protocol):
    """The API server's methods needed here."""

    async def review_token(self, token: str, audience: str) -> TokenReview:
        """Return the review of a token. Raises KubeError."""
        ...

    async def get_pod(self, namespace: str, name: str) -> Pod:
        """Return a pod. Raises KubeError."""
        ...


class TokenAuthenticator:
    """Authenticates tokens of one audience and one ServiceAccount, `namespace/name`."""

    def __init__(
        self,
        authority: Authority,
        *,
        audience: str,
        account: str,
        limits: ReviewLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._authority = authority
        self._audience = audience
        self._account = account
        self._reviewer: TokenReviewer[str] = TokenReviewer(
            self._review, fresh=_FRESH, usable=_USABLE, limits=limits, clock=clock
        )

    async def node_of(self, token: str, peer: str = "") -> str:
        """Return the node that a token is bound to; `peer`: the sender in gRPC's format. Raises InvalidTokenError or
        UnreviewedError.
        """
        if not token:
            raise InvalidTokenError("no token in the request: `authorization: Bearer` is required")
        return await self._reviewer.identify(token, address(peer))

    async def _review(self, token: str) -> str:
        review = await self._authority.review_token(token, self._audience)
        owner = bound(review, audience=self._audience, account=self._account)
        return owner.node or await self._node_of_pod(owner)

    async def _node_of_pod(self, owner: Bound) -> str:
        """Return the pod's node. API servers before 1.30 name only the pod of a token."""
        try:
            pod = await self._authority.get_pod(owner.namespace, owner.pod)
        except KubeError as error:
            if error.status == 404:
                raise InvalidTokenError(f"the token's pod {owner.pod} is gone") from error
            raise
        if pod.metadata.uid != owner.pod_uid or not pod.spec.node_name:
            raise InvalidTokenError(f"the token's pod {owner.pod} is gone")
        return pod.spec.node_name


@dataclass(frozen=True, slots=True)
class StreamRejection:
    """The status and message with which a stream is ended."""

    code: Code
    sentence: str


Check = Callable[[str, Caller], Awaitable[StreamRejection | None]]
"""Returns why a client may not report for a node; None if it may."""


async def allow_all(_node: str, _caller: Caller) -> StreamRejection | None:
    """Admit every client, on a port without TLS."""
    return None


async def by_certificate(node: str, caller: Caller) -> StreamRejection | None:
    """Require that the common name or a DNS name of the client certificate, verified by gRPC, is the node's name.

    gRPC for Python cannot turn session tickets off, and a resumed session skips the verification: an expired certificate
    would be let in.
    """
    if caller.resumed:
        return StreamRejection(
            Code.UNAUTHENTICATED, "a resumed TLS session: the client certificate was not verified"
        )
    names = node_names(caller.names)
    if node in names:
        return None
    named = ", ".join(sorted(names)) or "no name"
    return StreamRejection(
        Code.PERMISSION_DENIED, f"the client certificate is for {named[:300]}, not for node {node}"
    )


def by_token(authenticator: TokenAuthenticator) -> Check:
    """Return a check that the token in the metadata is bound to the node."""

    async def check(node: str, caller: Caller) -> StreamRejection | None:
        try:
            own = await authenticator.node_of(caller.token, caller.peer)
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

    async def admit(self, node: str, caller: Caller) -> StreamRejection | None:
        """Return why this client may not report for this node; None if it may."""
        return await self._check(node, caller) or self.missing(node)

    def missing(self, node: str) -> StreamRejection | None:
        """Return the rejection for a node that does not exist; None if it does."""
        if self._exists(node):
            return None
        return StreamRejection(Code.NOT_FOUND, f"there is no node {node} in the cluster")


def authorizer(
    options: AgentOptions,
    authority: Authority | None,
    *,
    plain: bool,
    exists: Callable[[str], bool] = lambda _node: True,
) -> Authorizer:
    """Authorizes agents for nodes that exist. `authority` reviews tokens; None only if there are none."""
    return Authorizer(_check(options, authority, plain=plain), exists=exists)


def _check(options: AgentOptions, authority: Authority | None, *, plain: bool) -> Check:
    if plain:
        return allow_all
    if options.agent_identity == "certificate" or authority is None:
        return by_certificate
    return by_token(
        TokenAuthenticator(
            authority, audience=options.agent_audience, account=options.agent_account
        )
    )
