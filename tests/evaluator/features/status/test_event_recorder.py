"""Events on policies, on the sandbox's API server: new ones once, repeated ones counted, rate-limited."""

from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry

from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.decide import decide
from evaluator.core.policy.decide import decide as decide_on
from evaluator.core.policy.hints import aggregation_hint
from evaluator.core.policy.parse import parse
from evaluator.core.policy.problems import refusal_problem
from evaluator.core.policy.reductions import Use
from evaluator.core.policy.types import Operator
from evaluator.core.policy_status import PolicyPart
from evaluator.core.readings.store import Store
from evaluator.features.status.event_recorder import EventRate, PolicyEventRecorder
from evaluator.features.status.pod_controller import StatusMetrics
from tests.clock import Clock
from wire.codec import Delta

NOW = 1000.0
KEY = PolicyKey("default", "demo")
EVENTS = "/api/v1/namespaces/default/events"
VIOLATED = "deschedule is violated: the condition DescheduleViolated names the nodes"
CLEARED = "deschedule is no longer violated on any node"


def conflicts(*nodes):
    """The part of a policy whose label another manager owns on these nodes."""
    problems = [f"label demo on {node} is owned by another field manager" for node in nodes]
    return (PolicyPart(varying_problems=problems),)


class Recording:
    """An event controller in a fake environment: decisions come from given readings."""

    def __init__(self, kube, rng, pace):
        self.clock = Clock(5000.0)
        self.decided = SimpleNamespace(latest=None, waiting_for=[])
        self.parts = ()
        self.status = {}
        self.similar = {}
        self.is_leader = True
        self.registry = CollectorRegistry()
        self.metrics = StatusMetrics(self.registry)
        self.recorder = PolicyEventRecorder(
            kube,
            self.decided,
            self.metrics.policy_events,
            parts_of=lambda _decision: self.parts,
            similar_to=self.similar.get,
            status_of=lambda key: self.status.get(key, {}),
            is_leader=lambda: self.is_leader,
            pace=pace,
            clock=self.clock,
            rng=rng,
        )

    def decide(self, *policies, several=(), **values):
        store = Store(stale_after=30.0, started=0.0)
        store.subscribe({metric for policy in policies for metric in policy.metrics})
        for node, value in values.items():
            store.report(node, Delta({"health": value}), NOW)
        for node, count in dict(several).items():
            store.report(node, Delta(several={"health": count}), NOW)
        self.decided.latest = decide(policies, values, store, now=NOW)
        self.recorder.wake()

    def counted(self, reason):
        of = {"namespace": "default", "policy": "demo", "reason": reason}
        return self.registry.get_sample_value("plimsoll_policy_events_total", of)


@pytest.fixture
def demo(tas, rule):
    return tas("demo", "default", deschedule=[rule("health Equals 2")])


@pytest.fixture
def recording(connect, rng, background):
    async def start(url, pace=None):
        made = Recording(await connect(url), rng, pace or EventRate(pause=0.01))
        background(made.recorder.run())
        return made

    return start


@pytest.fixture
async def told(api):
    """Wait until the events on the policy are exactly these: message → count."""

    def counts(listed):
        return {event["message"]: event["count"] for event in listed["items"]}

    async def wait(wanted):
        return (await api.seen(EVENTS, lambda listed: counts(listed) == wanted))["items"]

    return wait


async def test_violation_and_its_end_are_reported_and_counted(api, recording, told, demo):
    world = await recording(api.url)
    policy = parse(demo)
    world.decide(policy, n0=2.0)
    (event,) = await told({VIOLATED: 1})
    assert event["involvedObject"]["uid"] == policy.uid
    assert (event["type"], event["reason"]) == ("Warning", "StrategyViolated")
    world.decide(policy, n0=2.0, n1=2.0)  # another node is no change
    world.decide(policy, n0=0.0, n1=0.0)
    events = await told({VIOLATED: 1, CLEARED: 1})
    assert {event["type"] for event in events} == {"Warning", "Normal"}
    world.decide(policy, n0=2.0, n1=0.0)
    await told({VIOLATED: 2, CLEARED: 1})
    assert world.counted("StrategyViolated") == 2
    assert world.counted("StrategyCleared") == 1


async def test_metric_that_no_node_has_is_reported_once(api, recording, told, demo):
    world = await recording(api.url)

    def decide():
        store = Store(stale_after=30.0, started=0.0)
        store.subscribe({"health"})
        store.report("n0", Delta(absent=["health"]), NOW)
        world.decided.latest = decide_on([parse(demo)], ["n0"], store, now=NOW)
        world.recorder.wake()

    decide()
    world.similar["health"] = ("node_health",)
    decide()
    sentence = "no node has the metric health; similar metrics that nodes have: node_health; see the condition MetricsFound"
    (event,) = await told({sentence: 1})
    assert (event["type"], event["reason"]) == ("Warning", "MetricNotFound")
    assert world.counted("MetricNotFound") == 1
    world.status[KEY] = {"conditions": [{"type": "MetricsFound", "status": "False"}]}
    world.recorder.start_over()
    decide()
    world.decide(parse(demo), n0=2.0)
    await told({sentence: 1, VIOLATED: 1})


async def test_new_problem_is_reported(api, recording, told, tas, rule):
    world = await recording(api.url)
    bad = tas("demo", "default", deschedule=[rule("health Equals 2"), {}])
    world.decide(parse(bad), n0=0.0)
    sentence = "deschedule: rule 2: it has no metricname: left out"
    await told({sentence: 1})
    worse = tas("demo", "default", deschedule=[rule("health Equals 2"), {}], nonsense=[])
    world.decide(parse(worse), n0=0.0)
    (other,) = {*parse(worse).problems} - {sentence}
    await told({sentence: 1, other: 1})


async def test_warning_is_reported_once_also_after_a_restart(api, recording, told, tas, rule):
    world = await recording(api.url)
    obj = tas("demo", "default", deschedule=[rule("my_seconds_total GreaterThan 20")])
    policy = parse(obj)
    world.decide(policy, n0=0.0)
    (event,) = await told({policy.warnings[0]: 1})
    assert (event["type"], event["reason"]) == ("Warning", "PolicyWarning")
    valid = {"type": "Valid", "status": "True", "reason": "Warnings", "observedGeneration": 1}
    world.status[KEY] = {"conditions": [valid]}
    world.recorder.start_over()
    world.decide(policy, n0=0.0)
    renamed = tas(
        "demo", "default", generation=2, deschedule=[rule("my_bytes_total GreaterThan 20")]
    )
    world.decide(parse(renamed), n0=0.0)
    await told({policy.warnings[0]: 1, parse(renamed).warnings[0]: 1})


async def test_policy_that_refuses_every_node_at_once_is_reported_once(
    api, recording, told, tas, rule
):
    world = await recording(api.url)
    policy = parse(tas("demo", "default", dontschedule=[rule("health Equals 2")]))
    world.decide(policy, n0=2.0, n1=2.0)
    began = "dontschedule is violated: the condition DontScheduleViolated names the nodes"
    await told({began: 1, refusal_problem(policy): 1})
    world.decide(policy, n0=2.0, n1=2.0)
    world.decide(policy, n0=0.0, n1=0.0)
    cleared = "dontschedule is no longer violated on any node"
    await told({began: 1, refusal_problem(policy): 1, cleared: 1})


async def test_label_conflict_is_reported_without_the_node(api, recording, told, demo):
    world = await recording(api.url)
    world.parts = conflicts("n0")
    world.decide(parse(demo), n0=2.0)
    words = "a part of the policy is not in force: see the condition Valid"
    await told({VIOLATED: 1, words: 1})
    world.parts = conflicts("n0", "n1")
    world.decide(parse(demo), n0=2.0, n1=2.0)
    world.parts = ()
    world.decide(parse(demo), n0=0.0, n1=0.0)
    await told({VIOLATED: 1, words: 1, CLEARED: 1})


async def test_ambiguous_series_are_reported_once_with_a_hint(api, recording, told, demo):
    world = await recording(api.url)
    what_to_do = aggregation_hint("health", "", (Use(Operator.EQUALS, 2.0),))
    words = f"metric health has several series and so no single value: {what_to_do}"
    world.decide(parse(demo), several={"n0": 2}, n0=0.0, n1=0.0)
    await told({words: 1})
    world.decide(parse(demo), several={"n0": 3, "n1": 7}, n0=0.0, n1=0.0, n2=2.0)
    await told({words: 1, VIOLATED: 1})


async def test_expired_event_is_created_again(api, recording, told, demo):
    world = await recording(api.url)
    world.decide(parse(demo), n0=2.0)
    (event,) = await told({VIOLATED: 1})
    await api.delete(f"{EVENTS}/{event['metadata']['name']}")
    world.decide(parse(demo), n0=0.0)
    await told({CLEARED: 1})
    world.decide(parse(demo), n0=2.0)
    await told({VIOLATED: 2, CLEARED: 1})


async def test_rate_limited_event_is_written_later_with_its_count(
    api, recording, told, demo, until
):
    world = await recording(api.url, EventRate(limit=3, period=60.0, pause=0.0))
    policy = parse(demo)
    for round_ in range(1, 6):
        world.decide(policy, n0=2.0)
        await until(lambda n=round_: world.counted("StrategyViolated") == n)
        world.decide(policy, n0=0.0)
        await until(lambda n=round_: world.counted("StrategyCleared") == n)
    listed = (await api.get(EVENTS))["items"]
    assert sum(event["count"] for event in listed) <= 3
    world.clock.now += 61
    world.recorder.wake()
    await told({VIOLATED: 5, CLEARED: 5})


async def test_restart_repeats_no_event(stub_server, answer, recording, demo, tas, rule):
    stub_server.otherwise(answer.says(201, {}))
    world = await recording(stub_server.url)
    true = [{"type": "DescheduleViolated", "status": "True"}]
    flawed = [*true, {"type": "Valid", "status": "False", "observedGeneration": 1}]
    world.status[KEY] = {"conditions": flawed}
    bad = parse(tas("demo", "default", deschedule=[rule("health Equals 2"), {}]))
    world.decide(bad, n0=2.0)
    world.decide(bad, n0=0.0)
    (asked,) = await stub_server.until(1)
    assert asked.json["reason"] == "StrategyCleared"


async def test_new_policy_is_reported_even_if_its_status_was_written_first(
    stub_server, answer, recording, demo, tas, rule
):
    """The status is written at once, events at most once a second."""
    stub_server.otherwise(answer.says(201, {}))
    world = await recording(stub_server.url)
    other = parse(tas("other", "default", deschedule=[rule("health Equals 1")]))
    world.decide(other, n0=1.0)
    await stub_server.until(1)
    world.status[KEY] = {"conditions": [{"type": "DescheduleViolated", "status": "True"}]}
    world.decide(other, parse(demo), n0=1.0, n1=2.0)
    *_, asked = await stub_server.until(2)
    assert asked.json["reason"] == "StrategyViolated"
    assert asked.json["involvedObject"]["name"] == "demo"


async def test_problem_of_an_edit_during_downtime_is_reported(stub_server, answer, recording, tas):
    stub_server.otherwise(answer.says(201, {}))
    world = await recording(stub_server.url)
    world.status[KEY] = {
        "conditions": [{"type": "Valid", "status": "False", "observedGeneration": 1}]
    }
    world.decide(parse(tas("demo", "default", generation=2, nonsense=[])), n0=2.0)
    (asked,) = await stub_server.until(1)
    assert asked.json["reason"] == "PolicyProblem"


async def test_only_the_leader_writes_events_and_a_new_one_writes_changes(
    stub_server, answer, recording, demo, until
):
    stub_server.otherwise(answer.says(201, {}))
    world = await recording(stub_server.url)
    world.is_leader = False
    world.decide(parse(demo), n0=2.0)
    world.is_leader = True
    world.recorder.start_over()
    (asked,) = await stub_server.until(1)
    assert asked.json["reason"] == "StrategyViolated"


@pytest.mark.parametrize(("status", "tries"), [(500, 2), (429, 2), (403, 1), (422, 1)])
async def test_rejected_event_is_retried_only_if_that_can_help(
    stub_server, answer, recording, demo, status, tries
):
    world = await recording(stub_server.url)
    stub_server.then(answer.refuses(status))
    stub_server.otherwise(answer.says(201, {}))
    world.decide(parse(demo), n0=2.0)
    asked = await stub_server.until(tries)
    world.decide(parse(demo), n0=0.0)
    asked = await stub_server.until(tries + 1)
    reasons = [one.json["reason"] for one in asked]
    assert reasons == ["StrategyViolated"] * tries + ["StrategyCleared"]


async def test_deleted_policy_is_forgotten(stub_server, answer, recording, demo, until):
    stub_server.otherwise(answer.says(201, {}))
    world = await recording(stub_server.url)
    world.decide(parse(demo), n0=2.0)
    await stub_server.until(1)
    world.decide(n0=2.0)
    await until(lambda: not world.recorder._states)
    again = parse({**demo, "metadata": {**demo["metadata"], "uid": "another"}})
    world.decide(again, n0=2.0)
    asked = await stub_server.until(2)
    assert asked[1].json["involvedObject"]["uid"] == "another"
