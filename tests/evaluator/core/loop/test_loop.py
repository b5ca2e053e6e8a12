"""The decision loop: when it evaluates, when its result may be used, and what it logs."""

import asyncio

import numpy as np
import pytest
from prometheus_client import Counter

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.loop import loop as decider
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.loop.subscription import Subscriptions
from evaluator.core.metrics import Metrics
from evaluator.core.model.metadata import ObjectMeta
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node import Node
from evaluator.core.model.node_index import NodeIndex
from evaluator.core.policy import parse
from evaluator.core.policy.decide import NotReadyError
from evaluator.core.readings.store import Store
from evaluator.features.scorers.derived import ScorerMetrics, Scoring
from evaluator.features.scorers.plugin import ScorerResult
from evaluator.features.scorers.snapshot import ClusterSnapshot
from tests.patience import PATIENCE
from wire.codec import Delta

KEY = PolicyKey("ns", "demo-policy")
STALE = 30.0


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


class DecisionLoopWorld:
    def __init__(self, stale_after=STALE, clock=None, **settings):
        self.clock = clock or Clock()
        self.cluster = ClusterCache(stale_after=60.0)
        self.store = Store(stale_after=stale_after, started=self.clock())
        self.subscriptions = Subscriptions()
        self.metrics = Metrics()
        self.decider = DecisionLoop(
            self.cluster,
            self.store,
            self.subscriptions,
            self.metrics,
            clock=self.clock,
            **settings,
        )
        self.cluster.listeners.decisions.append(self.decider.touch)

    def know(self, *policies, nodes=("node-a", "node-b")):
        self.cluster.policies.replace(list(policies))
        self.cluster.nodes.replace([Node(ObjectMeta(name=name, uid=name)) for name in nodes])
        self.cluster.pods.replace([])

    def hear(self, **values):
        """Full reports of health_metric; `_` in a node name stands for `-`."""
        for node, value in values.items():
            self.store.report(
                node.replace("_", "-"), Delta({"health_metric": value}), self.clock.now
            )

    def value(self, name, **labels):
        return self.metrics.registry.get_sample_value(name, labels)


@pytest.fixture
def demo(tas, rule):
    def make(**metadata):
        return parse.parse(
            tas(
                "demo-policy",
                dontschedule=[rule("health_metric Equals 1"), rule("health_metric Equals 2")],
                scheduleonmetric=[rule("health_metric LessThan 0")],
                deschedule=[rule("health_metric Equals 2")],
                **metadata,
            )
        )

    return make


@pytest.fixture
def world(demo):
    made = DecisionLoopWorld()
    made.know(demo())
    made.decider.evaluate()
    return made


def test_not_ready_while_the_api_server_does_not_serve_policies(world, demo):
    world.hear(node_a=0.0, node_b=1.0)
    world.decider.evaluate()
    assert not world.decider.waiting_for
    world.cluster.policies.mark_unserved("TASPolicy CRD is not installed")
    assert world.value("plimsoll_ready") == 0
    with pytest.raises(NotReadyError, match="TASPolicy CRD is not installed"):
        world.decider.current()
    world.cluster.policies.replace([demo()])
    world.decider.evaluate()
    assert world.decider.current().policies


def test_not_ready_until_every_kind_is_listed_and_every_node_has_reported(demo):
    world = DecisionLoopWorld()
    decider = world.decider
    assert list(decider.waiting_for) == ["policies", "nodes", "pods"]
    with pytest.raises(NotReadyError, match="waiting for policies, nodes, pods"):
        decider.current()
    world.know(demo())
    assert decider.waiting_for  # known, but not decided yet
    decider.evaluate()
    assert list(decider.waiting_for) == ["the first report of 2 nodes"]
    world.hear(node_a=0.0)
    decider.evaluate()
    assert list(decider.waiting_for) == ["the first report of 1 node"]
    assert world.value("plimsoll_ready") == 0
    world.hear(node_b=1.0)
    decider.evaluate()
    assert not decider.waiting_for
    assert decider.current() is decider.latest
    assert world.value("plimsoll_ready") == 1


def test_not_ready_but_serving_while_the_watch_is_silent(world):
    world.hear(node_a=0.0, node_b=1.0)
    freshness = world.cluster.staleness
    for kind in ("taspolicies", "nodes", "pods"):
        freshness.observed(kind, world.clock.now)
    world.decider.evaluate()
    world.clock.now += 61
    freshness.observed("pods", world.clock.now)
    world.hear(node_a=1.0, node_b=1.0)
    world.decider.evaluate()
    assert [sentence.split(" from ")[0] for sentence in world.decider.waiting_for] == [
        "updates of taspolicies",
        "updates of nodes",
    ]
    assert world.value("plimsoll_ready") == 0
    (decision,) = world.decider.current().policies.values()
    assert set(decision.dontschedule) == {"node-a", "node-b"}
    freshness.observed("taspolicies", world.clock.now)
    freshness.observed("nodes", world.clock.now)
    assert not world.decider.waiting_for
    assert world.value("plimsoll_ready") == 1


def test_after_a_suspend_nodes_are_pending_until_they_report_again(world):
    """Neither the old readings nor staleness count: this process has not received reports."""
    world.hear(node_a=1.0, node_b=0.0)
    world.decider.evaluate()
    world.clock.now += STALE + 60.0
    decision = world.decider.current().policies[KEY]
    assert decision.unreported == {"node-a", "node-b"}
    assert not decision.dontschedule
    world.hear(node_a=1.0)
    world.decider.evaluate()
    decision = world.decider.current().policies[KEY]
    assert decision.unreported == {"node-b"}
    assert set(decision.dontschedule) == {"node-a"}
    world.clock.now += STALE - 1.0
    world.hear(node_a=1.0)
    world.clock.now += 1.0
    world.decider.evaluate()
    decision = world.decider.current().policies[KEY]
    assert not decision.unreported, "the node has been silent for so long that it is not waited for"
    assert decision.missing["health_metric"] == ("node-b",)


def test_suspend_keeps_labels_and_does_not_wait_for_nodes_stale_before(world):
    world.hear(node_a=2.0, node_b=2.0)
    world.decider.evaluate()
    world.clock.now += STALE / 2
    world.hear(node_a=2.0)
    world.clock.now += STALE / 2 + 0.5
    world.decider.evaluate()
    assert set(world.decider.latest.labels) == {"node-a"}
    world.clock.now += 10 * STALE
    decisions = world.decider.current()
    assert decisions.policies[KEY].unreported == {"node-a"}
    assert decisions.labels == {"node-a": {"demo-policy": "violating"}}


def test_ready_without_silent_nodes_after_the_stale_time(world):
    world.hear(node_a=0.0)
    world.clock.now += STALE
    world.hear(node_a=0.0)
    world.decider.evaluate()
    assert not world.decider.waiting_for


def test_ready_at_once_if_no_policy_names_a_metric():
    world = DecisionLoopWorld()
    world.know()
    world.decider.evaluate()
    assert not world.decider.waiting_for


def test_ready_after_startup_although_a_node_cannot_read_a_source(world):
    world.hear(node_a=0.0)
    world.store.report("node-b", Delta(unread=["health_metric"]), world.clock.now)
    world.decider.evaluate()
    assert world.decider.waiting_for
    world.clock.now += STALE + 1
    world.hear(node_a=0.0)
    world.store.report("node-b", Delta(unread=["health_metric"]), world.clock.now)
    world.decider.evaluate()
    assert not world.decider.waiting_for
    assert world.decider.latest.policies[KEY].unreported == frozenset()


def test_new_policy_does_not_make_a_ready_evaluator_unready(world, demo, parsed, rule):
    world.hear(node_a=0.0, node_b=1.0)
    world.decider.evaluate()
    world.cluster.policies.put(parsed("new", dontschedule=[rule("other Equals 1")]))
    world.decider.evaluate()
    assert not world.decider.waiting_for
    assert world.decider.latest.policies[PolicyKey("ns", "new")].unreported == {"node-a", "node-b"}


def test_stopping_makes_not_ready_permanently(world):
    world.hear(node_a=0.0, node_b=1.0)
    world.decider.evaluate()
    world.decider.stop("the end")
    world.decider.evaluate()
    assert list(world.decider.waiting_for) == ["the end"]
    assert world.decider.current() is world.decider.latest  # earlier requests are answered
    assert world.value("plimsoll_ready") == 0


def test_agents_are_subscribed_to_the_metrics_of_policies(world, parsed, rule):
    assert world.subscriptions.current.metrics == ("health_metric",)
    world.cluster.policies.put(parsed("new", dontschedule=[rule("cpu Equals 1")]))
    world.decider.evaluate()
    assert world.subscriptions.current.metrics == ("cpu", "health_metric")
    world.cluster.policies.replace([])
    world.decider.evaluate()
    assert world.subscriptions.current.metrics == ()
    assert world.store.metrics == frozenset()


def test_scorer_metrics_are_never_subscribed_to(parsed, rule):
    world = DecisionLoopWorld()
    world.decider.required = frozenset({"used"})
    on_scorers = [rule("plimsoll_risk GreaterThan 0"), rule("plimsoll_reward LessThan 1")]
    world.know(parsed(dontschedule=[*on_scorers, rule("load1 GreaterThan 1")]))
    world.decider.evaluate()
    assert world.subscriptions.current.metrics == ("load1", "used")
    assert world.store.metrics == {"load1", "used"}


def test_nodes_are_pending_until_the_first_snapshot(parsed, rule):
    class Scorer:
        predicates = priorities = metrics = ()

        def score(self, view, pod):
            return ScorerResult(facts={"cpu.risk": np.array([0.5]), "memory.risk": np.array([1.5])})

    view = None
    world = DecisionLoopWorld()
    scoring = Scoring({"safe": Scorer()}, lambda: view)
    world.decider.derive(lambda readings: ScorerMetrics(readings, scoring))
    world.know(parsed("demo-policy", dontschedule=[rule("plimsoll_risk GreaterThan 1")]), nodes="a")
    world.decider.evaluate()
    assert list(world.decider.waiting_for) == ["the first report of 1 node"]
    view = ClusterSnapshot(NodeIndex("a"))
    world.decider.evaluate()
    assert not world.decider.waiting_for
    assert list(world.decider.current().policies[KEY].dontschedule) == ["a"]


def test_policy_over_the_metric_limit_reports_so_and_blocks_no_other(demo, parsed, rule):
    world = DecisionLoopWorld(most_metrics=2)
    greedy = parsed("greedy", dontschedule=[rule(f"m{n} Equals 1") for n in range(4)])
    world.know(demo(), greedy)
    world.decider.evaluate()
    assert world.subscriptions.current.metrics == ("health_metric", "m0")
    assert world.value("plimsoll_metrics_left_out") == 3
    for node in ("node-a", "node-b"):
        world.store.report(node, Delta({"health_metric": 0.0, "m0": 0.0}), world.clock.now)
    world.decider.evaluate()
    assert not world.decider.waiting_for
    decided = world.decider.latest.policies
    assert not decided[KEY].problems
    assert decided[greedy.key].problems == tuple(
        f"no source has metric m{n} (not requested: policies name more than --maxMetrics=2, of which namespaces use ns 2)"
        for n in (1, 2, 3)
    )
    world.cluster.policies.replace([demo()])
    world.decider.evaluate()
    assert world.value("plimsoll_metrics_left_out") == 0


def test_deleted_silent_nodes_are_forgotten(world):
    world.hear(node_a=0.0, elsewhere=0.0)
    world.clock.now += STALE + 1
    world.decider.evaluate()
    assert (world.store.knows("node-a"), world.store.knows("elsewhere")) == (True, False)


def test_listeners_are_called_after_each_swap(world):
    told = []
    world.decider.listeners.append(lambda: told.append(world.decider.latest))
    world.decider.evaluate()
    world.hear(node_a=2.0, node_b=0.0)
    world.decider.evaluate()
    assert told[-1] is world.decider.latest
    assert set(told[-1].policies[KEY].deschedule) == {"node-a"}


def test_decisions_are_counted(world):
    world.hear(node_a=2.0, node_b=1.0)
    world.decider.evaluate()
    of = {"namespace": "ns", "policy": "demo-policy"}
    violating, mode = "plimsoll_policy_violating_nodes", "enforce"
    assert world.value(violating, **of, strategy="dontschedule", mode=mode) == 2
    assert world.value(violating, **of, strategy="deschedule", mode=mode) == 1
    missing = "plimsoll_policy_missing_readings"
    assert world.value(missing, **of, metric="health_metric") == 0
    assert world.value("plimsoll_policies") == 1
    assert world.value("plimsoll_nodes") == 2
    refused_everywhere = 1
    assert world.value("plimsoll_policy_problems", **of) == refused_everywhere
    world.cluster.policies.replace([])
    world.decider.evaluate()
    assert world.value("plimsoll_policy_problems", **of) is None
    assert world.value("plimsoll_policies") == 0


def test_deleted_policy_leaves_no_series(world):
    labels, registry = ["namespace", "policy", "result"], world.metrics.registry
    counters = [Counter(name, "Of a feature.", labels, registry=registry) for name in "ab"]
    world.metrics.policy_counters += counters
    for counter in counters:
        for name in ("demo-policy", "other"):
            counter.labels("ns", name, "x").inc()
    world.know()
    world.decider.evaluate()
    told = [
        (family.name, sample.labels)
        for family in world.metrics.registry.collect()
        for sample in family.samples
        if sample.labels.get("policy") == "demo-policy"
    ]
    assert told == []
    for name in ("a_total", "b_total"):
        assert world.value(name, namespace="ns", policy="other", result="x") == 1


def test_confirmed_reading_is_explained_with_its_current_age(world):
    world.hear(node_a=0.0, node_b=0.0)
    world.decider.evaluate()
    world.clock.now += 20
    world.store.report("node-a", Delta(), world.clock.now)  # a heartbeat: nothing to decide
    nodes = world.decider.latest.table.nodes
    with world.decider.readings() as readings:
        column = readings.column("health_metric", nodes, world.clock.now)
    assert (world.clock.now - column.at).tolist() == [0.0, 20.0]


def test_log_keeps_the_phrases_of_tas(log_lines, demo):
    said = since(log_lines("logfmt"))
    world = DecisionLoopWorld()
    world.know(demo())
    world.hear(node_a=0.0, node_b=0.0)
    world.decider.evaluate()
    assert said() == ['level=info msg="Evaluating demo-policy" policy=ns/demo-policy']
    world.hear(node_b=1.0)
    world.decider.evaluate()
    assert said() == [
        'level=info msg="Evaluating demo-policy" policy=ns/demo-policy',
        'level=info msg="node-b violating demo-policy: health_metric Equals 1" '
        "policy=ns/demo-policy node=node-b strategy=dontschedule",
    ]
    world.decider.evaluate()
    assert said() == []
    world.hear(node_b=0.0)
    world.decider.evaluate()
    assert said()[1] == (
        'level=info msg="node-b no longer violating demo-policy" '
        "policy=ns/demo-policy node=node-b strategy=dontschedule"
    )


def since(read):
    """Lines without their timestamps."""
    return lambda: [line.split(" ", 1)[1] for line in read()]


def test_violations_of_many_nodes_name_some_and_count_the_rest(log_lines, demo):
    said = since(log_lines("logfmt"))
    world = DecisionLoopWorld()
    nodes = [f"node_{number:04}" for number in range(5_000)]
    world.know(demo(), nodes=[node.replace("_", "-") for node in nodes])
    world.decider.evaluate()
    said()
    world.hear(**dict.fromkeys(nodes, 1.0))
    world.decider.evaluate()
    found = said()
    assert len(found) == 13
    assert found[1].startswith('level=info msg="node-0000 violating demo-policy: ')
    assert found[11] == (
        'level=info msg="4990 more nodes violating demo-policy" '
        "policy=ns/demo-policy nodes=4990 strategy=dontschedule"
    )
    assert "refused every node at its first evaluation" in found[12]
    world.hear(**dict.fromkeys(nodes, 0.0))
    world.decider.evaluate()
    found = said()
    assert len(found) == 12
    assert 'msg="4990 more nodes no longer violating demo-policy"' in found[11]


def test_problems_and_deletions_are_logged_once(log_lines, parsed, rule):
    said = since(log_lines("logfmt"))
    world = DecisionLoopWorld()
    bad = parsed("demo-policy", dontschedule=[rule("m Equals 1"), {}])
    world.know(bad, nodes=[])
    world.decider.evaluate()
    assert any(
        'level=warning msg="problem in policy demo-policy: dontschedule: rule 2: ' in line
        for line in said()
    )
    world.decider.evaluate()
    assert said() == []
    world.cluster.policies.replace([])
    world.decider.evaluate()
    assert said() == ['level=info msg="policy demo-policy is gone" policy=ns/demo-policy']


async def decided(world, predicate):
    """Wait until the loop has published decisions that satisfy a predicate."""
    swapped = asyncio.Event()
    world.decider.listeners.append(swapped.set)
    async with asyncio.timeout(PATIENCE):
        while not predicate(world.decider.latest):
            swapped.clear()
            await swapped.wait()


async def test_loop_evaluates_after_a_change(demo, background):
    loop = asyncio.get_running_loop()
    world = DecisionLoopWorld(clock=loop.time)
    background(world.decider.run())
    world.know(demo())
    await decided(world, lambda decisions: KEY in decisions.policies)
    for node in ("node-a", "node-b"):
        world.store.report(node, Delta({"health_metric": 1.0}), loop.time())
    world.decider.touch()
    await decided(world, lambda decisions: len(decisions.policies[KEY].dontschedule) == 2)


async def test_evaluation_yields_to_the_event_loop(parsed, rule, background):
    loop = asyncio.get_running_loop()
    world = DecisionLoopWorld(clock=loop.time, slice_=0.0)
    policies = [parsed(f"p{number}", dontschedule=[rule("cpu Equals 1")]) for number in range(50)]
    world.know(*policies)
    background(world.decider.run())
    turns = 0
    while not world.decider.latest.policies:
        turns += 1
        await asyncio.sleep(0)
    assert turns > len(policies)


async def test_evaluation_yields_to_open_requests(demo, background, monkeypatch):
    monkeypatch.setattr(decider, "_POLITE", 3600.0)
    asking, looked = True, asyncio.Event()

    def asked():
        looked.set()
        return asking

    world = DecisionLoopWorld(clock=asyncio.get_running_loop().time)
    world.decider.give_way(asked)
    background(world.decider.run())
    world.know(demo())
    await looked.wait()
    await asyncio.sleep(0)
    assert not world.decider.latest.policies
    asking = False
    await decided(world, lambda decisions: KEY in decisions.policies)


async def test_constant_requests_do_not_starve_evaluation(demo, background):
    world = DecisionLoopWorld(clock=asyncio.get_running_loop().time)
    world.decider.give_way(lambda: True)
    background(world.decider.run())
    world.know(demo())
    await decided(world, lambda decisions: KEY in decisions.policies)


def test_newest_decisions_are_not_replaced_by_an_older_evaluation(world):
    """An evaluation begun earlier must not replace a later result."""
    world.hear(node_a=0.0, node_b=0.0)
    old = world.decider._evaluation()
    next(old)
    world.hear(node_a=1.0)
    world.decider.evaluate()
    newest = world.decider.latest
    for _ in old:
        pass
    assert world.decider.latest is newest


async def test_loop_evaluates_nothing_before_every_kind_is_listed(demo, background):
    """Policies without nodes, or nodes without policies, must not be evaluated."""
    world = DecisionLoopWorld(clock=asyncio.get_running_loop().time)
    background(world.decider.run())
    world.cluster.policies.replace([demo()])
    world.cluster.nodes.replace([Node(ObjectMeta(name="node-a"))])
    for _ in range(20):
        world.decider.touch()
        await asyncio.sleep(0.001)
    assert world.subscriptions.current.metrics == ()
    world.cluster.pods.replace([])
    await decided(world, lambda decisions: KEY in decisions.policies)


async def test_loop_evaluates_when_readings_turn_stale(demo, background):
    """A node without an agent: no report announces that its reading turned stale."""
    now = 1000.0
    world = DecisionLoopWorld(stale_after=0.3, clock=lambda: now)
    background(world.decider.run())
    world.know(demo(), nodes=["node-a"])
    await decided(world, lambda decisions: KEY in decisions.policies)
    world.store.report("node-a", Delta({"health_metric": 1.0}), now)
    world.decider.touch()
    await decided(world, lambda decisions: decisions.policies[KEY].dontschedule)
    now += 0.4  # no event wakes the loop, which sleeps for the 0.3 s until the reading is stale
    await decided(world, lambda decisions: decisions.policies[KEY].missing)
    assert world.decider.latest.policies[KEY].dontschedule == {}


@pytest.mark.parametrize("turns", range(6))
async def test_loop_ends_when_cancelled_during_a_change(demo, turns):
    made = DecisionLoopWorld()
    made.know(demo())
    loop = asyncio.create_task(made.decider.run())
    await asyncio.sleep(0.05)
    made.decider.touch()
    for _ in range(turns):
        await asyncio.sleep(0)
    loop.cancel()
    await asyncio.wait({loop}, timeout=PATIENCE)
    assert loop.cancelled()


async def test_burst_of_changes_causes_few_evaluations(demo, background):
    loop = asyncio.get_running_loop()
    world = DecisionLoopWorld(clock=loop.time)
    background(world.decider.run())
    world.know(demo())
    await decided(world, lambda decisions: KEY in decisions.policies)
    before = world.value("plimsoll_decide_duration_seconds_count")
    for _ in range(1000):
        world.decider.touch()
        await asyncio.sleep(0)
    world.cluster.policies.replace([])
    await decided(world, lambda decisions: not decisions.policies)
    assert world.value("plimsoll_decide_duration_seconds_count") - before < 200


async def test_loop_evaluates_when_for_and_clear_after_expire(parsed, rule, background):
    loop = asyncio.get_running_loop()
    world = DecisionLoopWorld(clock=loop.time)
    background(world.decider.run())
    patient = {**rule("health_metric Equals 1"), "for": "200ms", "clearAfter": "200ms"}
    world.know(parsed("demo-policy", dontschedule=[patient]), nodes=["node-a"])
    await decided(world, lambda decisions: KEY in decisions.policies)
    for value, there in ((1.0, True), (0.0, False)):
        at = loop.time()
        world.store.report("node-a", Delta({"health_metric": value}), at)
        world.decider.touch()
        await decided(world, lambda d, there=there: bool(d.policies[KEY].dontschedule) is there)
        assert loop.time() >= at + 0.2


def test_own_label_of_an_earlier_process_is_kept_for_clear_after(parsed, rule):
    world = DecisionLoopWorld()
    patient = {**rule("health_metric Equals 2"), "clearAfter": "60s"}
    ours = frozenset({"demo-policy"})
    world.know(parsed("demo-policy", deschedule=[patient]), nodes=[])
    labels = {"demo-policy": "violating"}
    world.cluster.nodes.replace(
        [
            Node(ObjectMeta(name="node-a", uid="a", labels=labels, owned_labels=ours)),
            Node(ObjectMeta(name="node-b", uid="b", labels=labels)),  # of another manager
        ]
    )
    world.decider.evaluate()
    world.hear(node_a=0.0, node_b=0.0)
    world.decider.evaluate()
    assert world.decider.latest.labels == {"node-a": labels}
    of = {"namespace": "ns", "policy": "demo-policy", "strategy": "deschedule"}
    assert world.value("plimsoll_policy_timed_nodes", **of, state="clearing") == 1
    assert world.value("plimsoll_policy_timed_nodes", **of, state="pending") == 0
    world.clock.now += 60
    world.hear(node_a=0.0, node_b=0.0)
    world.decider.evaluate()
    assert world.decider.latest.labels == {}


def test_violations_by_missing_readings_are_counted(parsed, rule):
    world = DecisionLoopWorld()
    strict = {**rule("health_metric Equals 2"), "whenMissing": "violate"}
    world.know(parsed("demo-policy", dontschedule=[strict]))
    world.decider.evaluate()
    world.hear(node_a=0.0)
    world.store.report("node-b", Delta(absent=["health_metric"]), world.clock.now)
    world.decider.evaluate()
    assert world.decider.latest.policies[KEY].dontschedule == {
        "node-b": "violating demo-policy: health_metric is missing"
    }
    of = {"namespace": "ns", "policy": "demo-policy", "strategy": "dontschedule"}
    assert world.value("plimsoll_policy_missing_violations", **of) == 1
