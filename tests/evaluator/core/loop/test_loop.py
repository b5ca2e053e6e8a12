"""The decision loop: when it evaluates, when its result may be used, and what it logs."""

from prometheus_client import Counter

from evaluator.core.loop.loop import DecisionParts
from evaluator.core.model.node import Node, NodeMeta
from evaluator.core.policy.vocabulary import Vocabulary
from evaluator.core.signals import Decided, wakes
from tests.evaluator.core.loop.loop_world import KEY, STALE, DecisionLoopWorld
from wire.codec import Delta


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
    world.decider.extend(DecisionParts(required=frozenset({"used"})))
    on_scorers = [rule("plimsoll_risk GreaterThan 0"), rule("plimsoll_reward LessThan 1")]
    derived = Vocabulary(derived=frozenset({"plimsoll_risk", "plimsoll_reward"}))
    rules = [*on_scorers, rule("load1 GreaterThan 1")]
    world.know(parsed(dontschedule=rules, vocabulary=derived))
    world.decider.evaluate()
    assert world.subscriptions.current.metrics == ("load1", "used")
    assert world.store.metrics == {"load1", "used"}


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


def test_decisions_are_published_after_each_swap(world):
    told = []
    world.cluster.signals.connect(wakes(lambda: told.append(world.decider.latest), Decided))
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


def test_absent_readings_count_as_missing_only_if_they_violate(world, parsed, rule):
    never = Delta(absent=["health_metric"], never_had=frozenset({"health_metric"}))
    body = rule("health_metric GreaterThan 5")
    ignored = parsed("ignored", dontschedule=[body])
    strict = parsed("strict", dontschedule=[{**body, "whenMissing": "violate"}])
    world.know(ignored, strict)
    world.hear(node_a=1.0)
    world.store.report("node-b", never, world.clock.now)
    world.decider.evaluate()

    def figures(policy):
        of = {"namespace": "ns", "policy": policy, "metric": "health_metric"}
        names = ("missing", "absent")
        return [world.value(f"plimsoll_policy_{name}_readings", **of) for name in names]

    assert (figures("ignored"), figures("strict")) == ([0, 1], [1, 1])
    world.store.report("node-b", Delta(absent=["health_metric"]), world.clock.now)
    world.decider.evaluate()
    assert (figures("ignored"), figures("strict")) == ([1, None], [1, None])


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


def test_own_label_of_an_earlier_process_is_kept_for_clear_after(parsed, rule):
    world = DecisionLoopWorld()
    patient = {**rule("health_metric Equals 2"), "clearAfter": "60s"}
    ours = frozenset({"demo-policy"})
    world.know(parsed("demo-policy", deschedule=[patient]), nodes=[])
    labels = {"demo-policy": "violating"}
    world.cluster.nodes.replace(
        [
            Node(NodeMeta(name="node-a", uid="a", labels=labels, owned_labels=ours)),
            Node(NodeMeta(name="node-b", uid="b", labels=labels)),  # of another manager
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
