"""Node names from client certificates and from TokenReviews."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote

from evaluator.core.access.user import InvalidTokenError
from evaluator.core.model.api_status import TokenReview

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
