"""Decodes the pod of a request with its resource requests; policies need only its labels."""

from collections.abc import Callable

from evaluator.core.model import pod_spec_view, requests
from evaluator.core.model.pod_demand import PodView
from evaluator.core.model.resources import NOTHING, ResourceVector
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.protocol.codec import Args, BadRequestError
from plimsoll.decode import UNREADABLE

ForPod = Callable[[Args, Decision, Decisions], Decision]
"""Returns a policy's decision for the pod of a request."""
_MOST_OBJECTS = 100_000
"""JSON objects in a pod; a large pod with many field managers has a few thousand."""
_MOST_CONTAINERS = 1_000
"""Adding up the requests of more containers would delay other requests."""


def requested(args: Args) -> ResourceVector:
    """Return what the pod of a request requests; what cannot be read counts as nothing."""
    try:
        if bytes(args.whole).count(b"{") > _MOST_OBJECTS:
            return NOTHING
        pod = pod_spec_view.decode(args.whole)
    except UNREADABLE:
        return NOTHING
    if len(pod.spec.containers or ()) + len(pod.spec.init_containers or ()) > _MOST_CONTAINERS:
        return NOTHING
    return requests.effective(pod).requests


def view(args: Args) -> PodView:
    """Return the pod with its resource requests. Raises BadRequestError for a malformed pod or request."""
    if bytes(args.whole).count(b"{") > _MOST_OBJECTS:
        raise BadRequestError(f"a Pod of more than {_MOST_OBJECTS} objects in it")
    try:
        pod = pod_spec_view.decode(args.whole)
    except UNREADABLE as error:
        raise BadRequestError(f"not a Pod: {error}") from error
    if len(pod.spec.containers or ()) + len(pod.spec.init_containers or ()) > _MOST_CONTAINERS:
        raise BadRequestError(f"a Pod of more than {_MOST_CONTAINERS} containers in it")
    found, problems = requests.pod_view(pod)
    if problems:
        raise BadRequestError(problems[0])
    return found
