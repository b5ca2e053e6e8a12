"""Policy statuses are written to the sandbox's API server, once per change."""

import asyncio
from types import SimpleNamespace

import pytest

from evaluator.core.cache.policy_pods import PodCounts
from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.decide import decide
from evaluator.core.policy.parse import parse
from evaluator.core.policy_status import PolicyPart
from evaluator.core.readings.store import Store
from evaluator.features.status.controller import StatusController
from wire.codec import Delta

NOW = 1000.0
KEY = PolicyKey("default", "demo")
PATH = "/apis/telemetry.intel.com/v1alpha1/namespaces/default/taspolicies"


class Reporting:
    """A status controller in a fake environment: decisions come from given readings."""

    def __init__(self, kube, rng):
        self.decided = SimpleNamespace(latest=None, waiting_for=[])
        self.parts = ()
        self.status = {}
        self.pods = PodCounts()
        self.now = 5000.0
        self.reporter = StatusController(
            kube,
            self.decided,
            parts_of=lambda _decision: self.parts,
            pods_of=lambda _policy: self.pods,
            clock=lambda: self.now,
            status_of=lambda key: self.status.get(key, {}),
            pause=0.01,
            rng=rng,
        )

    def decide(self, *policies, **values):
        store = Store(stale_after=30.0, started=0.0)
        store.subscribe({metric for policy in policies for metric in policy.metrics})
        for node, value in values.items():
            store.report(node, Delta({"health": value}), NOW)
        self.decided.latest = decide(policies, values, store, now=NOW)
        self.reporter.wake()


@pytest.fixture
def demo(tas, rule):
    return tas("demo", "default", deschedule=[rule("health Equals 2")])


@pytest.fixture
async def world(api, connect, rng, background):
    await api.policies()
    made = Reporting(await connect(api.url), rng)
    background(made.reporter.run())
    return made


def says(compliance):
    return lambda policy: policy.get("status", {}).get("compliance") == compliance


async def test_status_reports_the_decision(api, world, demo):
    await api.policy(demo)
    world.decide(parse(demo), n0=0.0, n1=0.0)
    found = await api.seen(f"{PATH}/demo", says("Compliant"))
    assert found["status"]["message"] == "no violation on 2 nodes"
    assert found["status"]["observedGeneration"] == 1
    valid, deschedule, found_all, enforced = found["status"]["conditions"]
    assert (valid["type"], valid["status"]) == ("Valid", "True")
    assert (deschedule["type"], deschedule["status"]) == ("DescheduleViolated", "False")
    assert (found_all["type"], found_all["status"]) == ("MetricsFound", "True")
    assert (enforced["type"], enforced["status"]) == ("Enforced", "True")
    since = valid["lastTransitionTime"]

    world.decide(parse(demo), n0=0.0, n1=2.0)
    found = await api.seen(f"{PATH}/demo", says("Violated"))
    assert found["status"]["message"] == "violated on 1 of 2 nodes (n1)"
    assert found["status"]["conditions"][0]["lastTransitionTime"] == since


async def test_changed_number_of_pods_is_written_after_a_pause(api, world, demo, tas, rule):
    marker = tas("marker", "default", deschedule=[rule("health Equals 5")])
    for policy in (demo, marker):
        await api.policy(policy)
    world.pods = PodCounts(2, 1)
    world.decide(parse(demo), parse(marker), n0=0.0)
    found = await api.seen(f"{PATH}/demo", says("Compliant"))
    assert found["status"]["pods"] == {"following": 2, "ignored": 1}
    world.pods = PodCounts(3, 1)
    world.decide(parse(demo), parse(marker), n0=5.0)
    await api.seen(f"{PATH}/marker", says("Violated"))
    kept = await api.get(f"{PATH}/demo")
    assert kept["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]
    world.now += 10.0
    world.reporter.wake()
    await api.seen(f"{PATH}/demo", lambda policy: policy["status"]["pods"]["following"] == 3)
    world.pods = PodCounts(5, 1)
    world.decide(parse(demo), n0=2.0)  # together with another change, it is written at once
    found = await api.seen(f"{PATH}/demo", says("Violated"))
    assert found["status"]["pods"]["following"] == 5


async def test_problems_are_in_the_status(api, world, demo, rule):
    await api.policy(demo)
    bad = {**demo, "spec": {"strategies": {"deschedule": {"rules": [{}]}, "nonsense": {}}}}
    world.decide(parse(bad), n0=0.0)
    found = await api.seen(
        f"{PATH}/demo",
        lambda policy: policy.get("status", {}).get("conditions", [{}])[0].get("status") == "False",
    )
    message = found["status"]["conditions"][0]["message"]
    assert "strategy 'nonsense' is unknown" in message
    assert "deschedule: rule 1: it has no metricname" in message


async def test_problem_that_a_feature_reports_is_in_the_status(api, world, demo):
    await api.policy(demo)
    world.decide(parse(demo), n0=2.0)
    await api.seen(f"{PATH}/demo", says("Violated"))
    sentence = "label demo on n0 is owned by another field manager"
    world.parts = (PolicyPart(varying_problems=(sentence,)),)
    world.reporter.wake()
    found = await api.seen(
        f"{PATH}/demo", lambda policy: policy["status"]["conditions"][0]["status"] == "False"
    )
    assert sentence in str(found["status"]["conditions"])


async def test_unchanged_status_is_not_written_again(
    stub_server, answer, connect, rng, background, demo
):
    world = Reporting(await connect(stub_server.url), rng)
    background(world.reporter.run())
    stub_server.otherwise(answer.says(200, {}))
    world.decide(parse(demo), n0=0.0)
    await stub_server.until(1)
    for _ in range(5):
        world.decide(parse(demo), n0=1.0)  # another reading, the same verdict
        await asyncio.sleep(0.01)
    world.decide(parse(demo), n0=2.0)
    await stub_server.until(2)
    assert [asked.json["status"]["compliance"] for asked in stub_server.asked] == [
        "Compliant",
        "Violated",
    ]


async def test_failed_write_is_retried_and_delays_no_other(
    stub_server, answer, connect, rng, background, tas, rule
):
    world = Reporting(await connect(stub_server.url), rng)
    one, two = (
        parse(tas(name, "default", deschedule=[rule("health Equals 2")])) for name in ("a", "b")
    )
    stub_server.then(answer.refuses(500), answer.says(200, {}), answer.says(200, {}))
    background(world.reporter.run())
    world.decide(one, two, n0=0.0)
    asked = await stub_server.until(3)
    assert [a.path.split("/")[-2] for a in asked] == ["a", "b", "a"]


async def test_deleted_policy_is_no_failure(stub_server, answer, connect, rng, background, demo):
    world = Reporting(await connect(stub_server.url), rng)
    stub_server.then(answer.refuses(404), answer.says(200, {}))
    background(world.reporter.run())
    world.decide(parse(demo), n0=0.0)
    await stub_server.until(1)
    world.decide(n0=0.0)
    await asyncio.sleep(0.05)
    assert len(stub_server.asked) == 1


async def test_recreated_policy_gets_its_status_again(api, world, demo, until):
    await api.policy(demo)
    world.decide(parse(demo), n0=0.0)
    await api.seen(f"{PATH}/demo", says("Compliant"))
    await api.delete(f"{PATH}/demo")
    await api.policy(demo)
    again = parse({**demo, "metadata": {**demo["metadata"], "uid": "another-uid"}})
    world.decide(again, n0=0.0)
    await api.seen(f"{PATH}/demo", says("Compliant"))


async def test_nothing_is_written_before_the_first_decision(
    stub_server, answer, connect, rng, background, demo
):
    world = Reporting(await connect(stub_server.url), rng)
    stub_server.otherwise(answer.says(200, {}))
    background(world.reporter.run())
    world.decided.waiting_for = ["nodes"]
    world.decide(parse(demo), n0=0.0)
    await asyncio.sleep(0.05)
    assert stub_server.asked == []
    world.decided.waiting_for = []
    world.reporter.wake()
    await stub_server.until(1)


OLD = "2020-02-02T02:02:02Z"


def said(**conditions):
    """A status written by an earlier process."""
    return {
        "conditions": [
            {"type": name, "status": status, "lastTransitionTime": OLD}
            for name, status in conditions.items()
        ]
    }


def since(asked):
    conditions = asked.json["status"]["conditions"]
    return {c["type"]: c["lastTransitionTime"] == OLD for c in conditions}


@pytest.fixture
def silent_world(stub_server, answer, connect, rng, background):
    """A status controller whose API server accepts everything."""

    async def start():
        stub_server.otherwise(answer.says(200, {}))
        made = Reporting(await connect(stub_server.url), rng)
        background(made.reporter.run())
        return made

    return start


async def test_restart_is_no_transition(silent_world, stub_server, demo):
    world = await silent_world()
    world.status[KEY] = said(
        Valid="True", Enforced="True", MetricsFound="True", DescheduleViolated="True"
    )
    world.decide(parse(demo), n0=0.0)
    await stub_server.until(1)
    assert since(stub_server.asked[0]) == {
        "Valid": True,
        "DescheduleViolated": False,
        "Enforced": True,
        "MetricsFound": True,
    }


async def test_only_changed_conditions_have_a_new_time(silent_world, stub_server, demo):
    world = await silent_world()
    world.status[KEY] = said(
        Valid="True", Enforced="True", MetricsFound="True", DescheduleViolated="False"
    )
    world.decide(parse(demo), n0=0.0, n1=0.0)
    await stub_server.until(1)
    world.decide(parse(demo), n0=0.0, n1=2.0)
    await stub_server.until(2)
    world.decide(parse(demo), n0=2.0, n1=2.0)  # more nodes, the same condition
    await stub_server.until(3)
    assert [since(asked)["DescheduleViolated"] for asked in stub_server.asked] == [
        True,
        False,
        False,
    ]
    assert all(since(asked)["Valid"] for asked in stub_server.asked)
    second, third = (asked.json["status"]["conditions"][1] for asked in stub_server.asked[1:])
    assert second["lastTransitionTime"] == third["lastTransitionTime"]


@pytest.mark.parametrize(
    "status",
    [
        {"conditions": None},
        {"conditions": "x"},
        {"conditions": [5, {}, {"type": "Valid"}]},
        {"conditions": [{"type": "Valid", "status": "True", "lastTransitionTime": None}]},
    ],
)
async def test_invalid_existing_status_is_replaced(silent_world, stub_server, demo, status):
    world = await silent_world()
    world.status[KEY] = status
    world.decide(parse(demo), n0=0.0)
    await stub_server.until(1)
    times = [c["lastTransitionTime"] for c in stub_server.asked[0].json["status"]["conditions"]]
    assert all(time.endswith("Z") for time in times)


async def test_new_leader_keeps_the_transition_times_of_the_last(silent_world, stub_server, demo):
    world = await silent_world()
    world.decide(parse(demo), n0=0.0)
    await stub_server.until(1)
    world.status[KEY] = said(
        Valid="True", Enforced="True", MetricsFound="True", DescheduleViolated="False"
    )
    world.reporter.start_over()
    await stub_server.until(2)
    assert since(stub_server.asked[1]) == {
        "Valid": True,
        "DescheduleViolated": True,
        "Enforced": True,
        "MetricsFound": True,
    }


async def test_recreated_policy_has_its_own_transition_times(silent_world, stub_server, demo):
    world = await silent_world()
    world.status[KEY] = said(
        Valid="True", Enforced="True", MetricsFound="True", DescheduleViolated="False"
    )
    world.decide(parse(demo), n0=0.0)
    await stub_server.until(1)
    world.status[KEY] = {}
    world.decide(parse({**demo, "metadata": {**demo["metadata"], "uid": "another"}}), n0=0.0)
    await stub_server.until(2)
    assert since(stub_server.asked[1]) == {
        "Valid": False,
        "DescheduleViolated": False,
        "Enforced": False,
        "MetricsFound": False,
    }
