"""Short constructors of gangs and their decisions, for tests of decide()."""

from evaluator.gangs.core.types import GangHistory, GangTimings

NOW = 200.0
TERMS = GangTimings(timeout=60, backoff=10, longest_backoff=300, ageing=300)
SEEN = GangHistory(fresh=False)


def released(outcome):
    """Names of released pods by reason."""
    return {one.reason: {pod.name for pod in one.pods} for one in outcome.releases}


def state(outcome, name):
    return next(said.state for key, said in outcome.verdicts.items() if key.name == name)


def message(outcome, name):
    return next(said.message for key, said in outcome.verdicts.items() if key.name == name)


def gang(a_pod, name, count, minimum=None, **more):
    return [a_pod(f"{name}-{n}", name, minimum or count, **more) for n in range(count)]


def after(outcome, with_membership, pods, *, now=NOW):
    """The pods after the gates of a decision were lifted."""
    lifted = {pod.uid for one in outcome.releases for pod in one.pods}
    return [
        with_membership(pod, gated=False, admitted=now) if pod.uid in lifted else pod
        for pod in pods
    ]


def remembered(outcome, *, now=NOW):
    memory = outcome.memory
    for one in outcome.releases:
        memory = memory.released(one, now=now)
    return memory
