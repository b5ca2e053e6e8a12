"""The pod of a question as scorers look at it: decoded only where something depends on it, others need but its labels."""

from evaluator.extender.codec import Args, BadRequestError
from evaluator.model import pods, requests
from evaluator.model.decode import UNREADABLE
from evaluator.model.pod_demand import PodView

_MOST_OBJECTS = 100_000
"""In a pod; one with much in it, whose fields are owned by many, has some thousands."""
_MOST_CONTAINERS = 1_000
"""To add up what more of them ask for would hold up everybody else who waits for an answer."""


def view(args: Args) -> PodView:
    """What a scorer may know of the pod. Raises BadRequestError, also where it asks for an amount that is none."""
    if bytes(args.whole).count(b"{") > _MOST_OBJECTS:
        raise BadRequestError(f"a Pod of more than {_MOST_OBJECTS} objects in it")
    try:
        pod = pods.decode(args.whole)
    except UNREADABLE as error:
        raise BadRequestError(f"not a Pod: {error}") from error
    if len(pod.spec.containers or ()) + len(pod.spec.init_containers or ()) > _MOST_CONTAINERS:
        raise BadRequestError(f"a Pod of more than {_MOST_CONTAINERS} containers in it")
    found, problems = requests.pod_view(pod)
    if problems:
        raise BadRequestError(problems[0])
    return found
