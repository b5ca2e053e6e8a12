"""Whose agent a stream is: node names out of a client certificate, and out of what a TokenReview says of a token."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from evaluator.model.api_status import TokenReview

KUBELET = "system:node:"
"""How the API server's own node certificates begin their common name; the node's name follows."""

_LONGEST_NAME = 253
_IS_SUBDOMAIN = re.compile(
    r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*"
).fullmatch

_NODE = "authentication.kubernetes.io/node-name"
_POD = "authentication.kubernetes.io/pod-name"
_POD_UID = "authentication.kubernetes.io/pod-uid"
_ACCOUNT = "system:serviceaccount:"


def is_node_name(text: str) -> bool:
    """Whether an API server would take it for the name of a node: a lower-case DNS subdomain."""
    return len(text) <= _LONGEST_NAME and _IS_SUBDOMAIN(text) is not None


class NotAnAgentError(Exception):
    """Credentials that name no agent of this cluster; the sentence is for the log on both ends."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What a token is bound to: a node, or (API servers before 1.30 do not name it) a pod that runs on one."""

    namespace: str
    node: str = ""
    pod: str = ""
    pod_uid: str = ""


def is_resumed(auth: Mapping[str, Iterable[bytes]]) -> bool:
    """Return whether a connection resumed a TLS session, as gRPC reports it."""
    return b"true" in auth.get("ssl_session_reused", ())


def certified(auth: Mapping[str, Iterable[bytes]]) -> frozenset[str]:
    """The nodes that a verified client certificate stands for: its common name and DNS names, as gRPC lists them."""
    names = [*auth.get("x509_common_name", ()), *auth.get("peer_dns", ())]
    return frozenset(name.decode("utf-8", "replace").removeprefix(KUBELET) for name in names) - {""}


def bearer(metadata: Iterable[tuple[str, str | bytes]]) -> str:
    """The token of an `authorization: Bearer` among a call's metadata; empty if there is none."""
    for name, value in metadata:
        if name == "authorization" and isinstance(value, str):
            scheme, _, token = value.partition(" ")
            if scheme.lower() == "bearer":
                return token.strip()
    return ""


def bound(review: TokenReview, *, audience: str, account: str) -> Bound:
    """What an agent's token is bound to. `account` is the `namespace/name` of the agents' ServiceAccount.

    Raises NotAnAgentError for a token that is not valid, not meant for us, another account's, or bound to no node.
    """
    if not review.authenticated:
        raise NotAnAgentError(f"the token is not valid: {review.error or 'no reason was given'}")
    # An API server that knows no audiences answers without any: then the token was not made for us.
    if audience not in (review.audiences or ()):
        raise NotAnAgentError(f"the token is not meant for the audience {audience}")
    user = review.user
    namespace, _, name = user.username.removeprefix(_ACCOUNT).partition(":")
    if user.username != f"{_ACCOUNT}{namespace}:{name}" or f"{namespace}/{name}" != account:
        raise NotAnAgentError(f"the token is {user.username}'s, not ServiceAccount {account}'s")
    extra = user.extra or {}
    node, pod, uid = (next(iter(extra.get(key) or ()), "") for key in (_NODE, _POD, _POD_UID))
    if not node and not (pod and uid):
        raise NotAnAgentError("the token is bound to no node and to no pod")
    return Bound(namespace, node, pod, uid)
