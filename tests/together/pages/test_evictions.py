"""Pages say what stops evictions: which pods stay on violating nodes, and why."""

import pytest

from evaluator.core.kube.transport import KubeError
from evaluator.core.model.names import PolicyKey
from evaluator.core.pages.part import PagePart
from evaluator.features.evictions.kept import BARE
from evaluator.features.evictions.plan import NO_ALTERNATIVE, NODE_LIMIT, TURN, PolicyPlan
from evaluator.features.evictions.refusals import meaning
from evaluator.features.evictions.report import EvictionReport
from evaluator.features.evictions.successors import SPREAD
from tests.evaluator.features.pages.conftest import PagesOfPolicies, demo  # noqa: F401  a fixture

BUDGET = meaning(
    KubeError(
        429,
        "Cannot evict pod as it would violate the pod's disruption budget.",
        causes=(
            {
                "reason": "DisruptionBudget",
                "message": "The disruption budget db needs 1 healthy pods and has 1 currently",
            },
        ),
    )
).why
POLICY, PODS = "/policies/ns/demo", ("web-0", "web-1")


def evicting(policy, why, *, checked=""):
    """Return pages of a policy whose pods both stay for one reason."""
    report = EvictionReport(lambda: None, lambda: checked)
    pages = PagesOfPolicies(parts=[PagePart(policy=report.policy, pod=report.pod)])
    pages.know(policy, pods=[("ns", name, "demo") for name in PODS])
    pods = tuple(pages.cluster.pods.objects.values())
    report.update([PolicyPlan(PolicyKey("ns", "demo"), stays={why: pods})])
    return pages


@pytest.mark.parametrize("why", [BARE, BUDGET, NODE_LIMIT, NO_ALTERNATIVE, TURN])
async def test_pages_of_policy_and_pod_say_what_stops_evictions(demo, why):  # noqa: F811
    pages = evicting(demo, why)
    policy = await pages.html(POLICY)
    assert f"2 pods stay: {why}" in policy.text
    links = {attributes["href"] for attributes in policy.all("a")}
    assert {f"../../pods/ns/{name}" for name in PODS} <= links
    pod = await pages.html("/pods/ns/web-0")
    assert f"Not evicted {why}" in pod.text


async def test_page_names_the_budget(demo):  # noqa: F811
    page = await evicting(demo, BUDGET).html(POLICY)
    assert "PodDisruptionBudget db permits no eviction now" in page.text


async def test_pages_say_that_successors_are_checked_against_some_pods_only(demo):  # noqa: F811
    pages = evicting(demo, SPREAD, checked="checked against some pods only")
    assert "Successors checked against some pods only" in (await pages.html(POLICY)).text
    pod = await pages.html("/pods/ns/web-0")
    assert f"{SPREAD}; successors are checked against some pods only" in pod.text


async def test_reasons_of_the_pod_itself_do_not_depend_on_other_pods(demo):  # noqa: F811
    pages = evicting(demo, BARE, checked="checked against some pods only")
    assert "checked against" not in (await pages.html("/pods/ns/web-0")).text


async def test_pages_are_silent_where_all_pods_are_watched(demo):  # noqa: F811
    page = await evicting(demo, SPREAD).html(POLICY)
    assert "Successors" not in page.text
