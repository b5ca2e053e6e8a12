"""Short constructors of gangs and their decisions, for tests of decide()."""

from evaluator.features.gangs.core.types import GangHistory, GangTimings

NOW = 200.0
TERMS = GangTimings(timeout=60, backoff=10, longest_backoff=300, ageing=300)
SEEN = GangHistory(fresh=False)


def released(decisions):
    """Names of released pods by reason."""
    return {one.reason: {pod.name for pod in one.pods} for one in decisions.releases}


def state(decisions, name):
    return next(said.state for key, said in decisions.verdicts.items() if key.name == name)


def message(decisions, name):
    return next(said.message for key, said in decisions.verdicts.items() if key.name == name)


def gang(a_pod, name, count, minimum=None, **more):
    return [a_pod(f"{name}-{n}", name, minimum or count, **more) for n in range(count)]


def after(decisions, with_membership, pods, *, now=NOW):
    """The pods after the gates of a decision were lifted."""
    lifted = {pod.uid for one in decisions.releases for pod in one.pods}
    return [
        with_membership(pod, gated=False, admitted=now) if pod.uid in lifted else pod
        for pod in pods
    ]


def remembered(decisions, *, now=NOW):
    memory = decisions.memory
    for one in decisions.releases:
        memory = memory.released(one, now=now)
    return memory
