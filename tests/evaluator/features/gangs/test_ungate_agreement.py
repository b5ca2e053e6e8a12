"""decide() and the check before ungating agree; otherwise a gang would be released and never ungated."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evaluator.features.gangs.core.decide import decide
from evaluator.features.gangs.core.membership import Owner
from evaluator.features.gangs.core.podgroup import gang_among, gang_of
from evaluator.features.gangs.core.types import GangHistory, GangReason, GangTimings
from tests.examples import examples

NOW = 1000.0

PODS = st.lists(
    st.fixed_dictionaries(
        {
            "group": st.sampled_from(["a", "b"]),
            "minimum": st.sampled_from([0, 2, 3]),
            "node": st.sampled_from(["", "", "n"]),
            "foreign": st.sampled_from([(), (), ("a.io/x",)]),
            "phase": st.sampled_from(["Pending", "Pending", "Running", "Succeeded", "Failed"]),
            "leaving": st.sampled_from([False, False, True]),
            "owner": st.sampled_from([Owner(), Owner("Job", "j", "1"), Owner("Job", "j", "2")]),
            "admitted": st.sampled_from([None, None, 900.0]),
            "gated": st.booleans(),
            "created": st.sampled_from([100.0, 900.0]),
            "beside": st.sampled_from(["", "a"]),
        }
    ),
    max_size=9,
)


def made(a_pod, number, told):
    """A valid pod: one with a node has no gates, and a gated one was not admitted."""
    told = dict(told)
    group, minimum, node = told.pop("group"), told.pop("minimum"), told.pop("node")
    gated = told.pop("gated") and not node
    told |= {"gated": gated, "foreign": () if node else told["foreign"]}
    told |= {"admitted": None if gated else told["admitted"]}
    told |= {"beside": "" if minimum else told["beside"]}
    return a_pod(f"p{number}", group if minimum else "", minimum, node=node, **told)


@settings(
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(told=PODS, count_all=st.booleans(), old=st.booleans())
def test_released_pods_are_those_due_for_ungating(a_pod, space_of, told, count_all, old):
    pods = [made(a_pod, number, one) for number, one in enumerate(told)]
    keys = {gang_of(pod) for pod in pods} - {None}
    gangs = [gang_among(key, pods, count_all=count_all) for key in sorted(keys)]
    timings = GangTimings(gate_max_age=500.0) if old else GangTimings()
    memory = GangHistory(fresh=False)
    found = decide(gangs, space_of(pods, n=64), memory, timings, now=NOW, random=lambda: 0.0)
    for release in found.releases:
        (gang,) = [one for one in gangs if one.key == release.gang]
        meant, going = {pod.uid for pod in release.pods}, {pod.uid for pod in release.due(gang)}
        assert meant <= going
        if release.reason is not GangReason.ADMITTED:
            assert meant == going
        assert all(gang_of(pod) == gang.key for pod in release.pods)
