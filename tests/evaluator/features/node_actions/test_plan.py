"""Which nodes get which taints and conditions: unreported nodes, limits, restarts, flags and clashes."""

import pytest

from evaluator.core.model.node import NodeCondition
from evaluator.core.model.node_index import NodeIndex
from evaluator.core.policy import parse
from evaluator.core.policy.decide import Decisions, decide
from evaluator.core.readings.store import Store
from evaluator.features.node_actions.limit import NodeLimit
from evaluator.features.node_actions.plan import planning
from evaluator.features.node_actions.report import limit_conditions
from evaluator.features.node_actions.types import ActionPlan, ActionSettings, Observed
from evaluator.features.registry import VOCABULARY
from plimsoll.steps import finished
from tests.evaluator.conftest import make_rule, make_tas
from wire.codec import Delta

NODES = NodeIndex(["a", "b", "c", "d", "e"])
EVERYTHING = ActionSettings(
    taints=True, conditions=True, no_execute=True, most=NodeLimit(100, percent=True)
)
KIND = "plimsoll.io/Demo"


def policy(name="demo", namespace="ns", *, observe=False, strategies=None, **annotations):
    made = make_tas(name, namespace, **(strategies or {"dontschedule": [make_rule("m Equals 1")]}))
    given = {f"plimsoll.io/{k.replace('_', '-')}": text for k, text in annotations.items()}
    made["metadata"]["annotations"] = given
    return parse.parse(made, observe=observe, vocabulary=VOCABULARY)


HARD = {"actions": "taint", "taint_effect": "NoSchedule", "max_nodes": "5"}


class World:
    """Readings of metric m and n by node, and the plan made from them."""

    def __init__(self, *policies, nodes=NODES, **settings):
        self.policies = policies
        self.nodes = nodes
        self.settings = ActionSettings(**{**vars_of(EVERYTHING), **settings})
        self.store = Store(stale_after=30.0, started=0.0)
        self.store.subscribe({"m", "n"})
        self.decisions, self.plan = Decisions(), ActionPlan()
        self.taints, self.conditions, self.foreign = {}, {}, {}
        self.now = 100.0

    def report(self, **values):
        for node, value in values.items():
            self.store.report(node, Delta({"m": value, "n": value}, set()), self.now)
        return self.decide()

    def decide(self):
        self.decisions = decide(
            self.policies, self.nodes, self.store, now=self.now, before=self.decisions
        )
        observed = Observed(self.taints, self.conditions, self.foreign)
        self.plan = finished(
            planning(self.decisions, observed, self.plan, self.settings, now=1e9 + self.now)
        )
        return self.plan

    def tainted(self, effect="NoSchedule"):
        return sorted(
            node
            for node, found in self.plan.taints.items()
            if any(name.endswith(f":{effect}") for name in found)
        )

    def of(self, name="demo"):
        return next(one for key, one in self.plan.policies.items() if key.name == name)


def vars_of(settings):
    return {name: getattr(settings, name) for name in settings.__slots__}


def test_nodes_without_a_first_reading_keep_what_they_have():
    world = World(policy(**{**HARD, "actions": "taint,condition", "condition_type": KIND}))
    world.taints = {"a": frozenset({("plimsoll.io/ns.demo", "NoSchedule")})}
    world.conditions = {KIND: {"a": NodeCondition(KIND, "True", "DontScheduleViolated", 5.0)}}
    world.now = 1.0  # agents may still report
    world.report(b=1.0)
    assert world.tainted() == ["a", "b"]
    assert world.plan.conditions["a"] == {KIND: "True/DontScheduleViolated"}
    world.report(a=0.0)
    assert world.tainted() == ["b"]
    assert world.plan.conditions["a"] == {KIND: "False/Cleared"}


def test_observed_policy_acts_on_no_node_and_its_taints_are_taken_off():
    world = World(policy(observe=True, **HARD))
    world.taints = {"a": frozenset({("plimsoll.io/ns.demo", "NoSchedule")})}
    world.report(a=1.0)
    assert not world.plan.policies
    assert not world.plan.taints


def test_lowered_limit_takes_no_taint_off():
    world = World(policy(**{**HARD, "max_nodes": "1"}))
    world.taints = {
        node: frozenset({("plimsoll.io/ns.demo", "NoSchedule")}) for node in ("b", "c", "e")
    }
    world.report(a=1.0, b=1.0, c=1.0, d=0.0, e=0.0)
    assert world.tainted() == ["b", "c"]
    assert world.of().held_back == 1


def test_limit_is_a_share_of_the_nodes_that_have_the_metric():
    world = World(policy(**{**HARD, "max_nodes": "50%"}))
    world.report(a=1.0, b=1.0, c=1.0)
    assert (world.of().limit, world.of().of) == (2, 3)
    assert world.tainted() == ["a", "b"]
    (condition,) = limit_conditions(world.of())
    assert (condition.status, condition.reason) == ("True", "MaxNodesReached")


def test_limit_of_the_cluster_is_shared_in_the_order_of_policies():
    world = World(policy("one", **HARD), policy("two", **HARD), most=NodeLimit(2))
    world.report(a=1.0, b=1.0, c=1.0)
    assert world.tainted() == ["a", "b"]
    assert world.plan.acted == 2
    for name in ("one", "two"):
        (condition,) = limit_conditions(world.of(name))
        assert condition.reason == "MaxActedNodesReached"


def test_nodes_from_which_pods_are_evicted_count_for_the_cluster():
    evicting = policy("a-evicting", strategies={"deschedule": [make_rule("m Equals 1")]})
    world = World(evicting, policy("tainting", **HARD), evict=True, most=NodeLimit(1))
    world.report(a=1.0)
    assert world.of("a-evicting").may_evict("a")
    assert world.tainted() == ["a"]  # the same node counts once
    world.report(b=1.0)
    assert not world.of("a-evicting").may_evict("b")
    assert world.tainted() == ["a"]


def test_limited_soft_taints_of_a_policy_that_evicts_count_for_the_cluster():
    strategies = {
        "dontschedule": [make_rule("m Equals 1")],
        "deschedule": [make_rule("m Equals 9")],
    }
    soft = policy(strategies=strategies, actions="taint", max_nodes="100%")
    world = World(soft, evict=True, most=NodeLimit(1))
    world.report(a=1.0, b=1.0, c=1.0, d=1.0, e=1.0)
    for _ in range(5):
        assert world.tainted("PreferNoSchedule") == ["a"]
        world.taints = {"a": frozenset({("plimsoll.io/ns.demo", "PreferNoSchedule")})}
        world.decide()


def test_soft_taints_are_limited_only_if_the_author_says_so():
    assert World(policy(actions="taint")).report(a=1.0, b=1.0, c=1.0, d=0.0)
    for annotations, wanted in (({}, ["a", "b", "c"]), ({"max_nodes": "2"}, ["a", "b"])):
        world = World(policy(actions="taint", **annotations))
        world.report(a=1.0, b=1.0, c=1.0, d=0.0, e=0.0)
        assert world.tainted("PreferNoSchedule") == wanted


def test_change_from_soft_to_hard_obeys_the_limit():
    world = World(policy(**{**HARD, "max_nodes": "1"}))
    soft = frozenset({("plimsoll.io/ns.demo", "PreferNoSchedule")})
    world.taints = dict.fromkeys(("a", "b", "c"), soft)
    world.report(a=1.0, b=1.0, c=1.0, d=0.0, e=0.0)
    assert world.tainted() == ["a"]
    assert world.tainted("PreferNoSchedule") == []


def test_no_execute_only_where_deschedule_is_violated():
    both = {
        "dontschedule": [make_rule("m GreaterThan 0")],
        "deschedule": [make_rule("m Equals 2")],
    }
    world = World(policy(strategies=both, **{**HARD, "taint_effect": "NoExecute"}))
    world.report(a=1.0, b=2.0, c=0.0)
    assert world.tainted() == ["a", "b"]
    assert world.tainted("NoExecute") == ["b"]


def test_order_after_a_restart_is_that_of_the_conditions():
    world = World(
        policy(**{**HARD, "actions": "taint,condition", "condition_type": KIND, "max_nodes": "1"})
    )
    world.conditions = {
        KIND: {
            node: NodeCondition(KIND, "True", "DontScheduleViolated", since)
            for node, since in {"a": 30.0, "b": 10.0, "c": 20.0}.items()
        }
    }
    world.report(a=1.0, b=1.0, c=1.0, d=1.0)
    assert world.tainted() == ["b"]
    assert world.of().since.tolist()[:4] == [30.0, 10.0, 20.0, 1e9 + 100.0]


def test_second_policy_with_a_condition_type_sets_none_and_says_so():
    shared = {"actions": "condition", "condition_type": KIND}
    world = World(policy("one", **shared), policy("two", **shared))
    world.report(a=1.0)
    assert world.plan.conditions["a"] == {KIND: "True/DontScheduleViolated"}
    assert world.of("one").problems == ()
    assert world.of("two").problems == (
        f"condition {KIND} is set by policy ns/one: name another in plimsoll.io/condition-type",
    )


@pytest.mark.parametrize(
    ("flag", "problem"),
    [
        ("taints", "the evaluator runs without --taints: no taint is set"),
        ("conditions", "the evaluator runs without --conditions: no condition is set"),
        ("no_execute", "the evaluator runs without --allowNoExecute: NoSchedule is set instead"),
    ],
)
def test_action_that_the_evaluator_does_not_permit_is_a_problem(flag, problem):
    world = World(
        policy(actions="taint,condition", taint_effect="NoExecute", max_nodes="5"), **{flag: False}
    )
    world.report(a=1.0)
    assert problem in " ".join(world.of().problems)
    assert world.tainted("NoExecute") == []


def test_new_and_deleted_nodes_keep_the_times_of_the_others():
    world = World(policy(**HARD))
    world.report(b=1.0, d=1.0)
    world.now = 110.0
    world.nodes = NodeIndex(["a", "c", "d", "x"])
    world.report(a=1.0, d=1.0)
    since = dict(zip(world.plan.nodes, world.of().since.tolist(), strict=True))
    assert since["d"] == 1e9 + 100.0
    assert since["a"] == 1e9 + 110.0
    assert world.tainted() == ["a", "d"]


def test_taint_of_ours_with_an_unknown_effect_counts_and_ends_no_plan():
    world = World(policy(**HARD), most=NodeLimit(1))
    world.taints = {"e": frozenset({("plimsoll.io/ns.demo", "NoAdmit")})}
    world.report(a=1.0)
    assert world.tainted() == []
    world.taints = {}
    world.report(a=1.0)
    assert world.tainted() == ["a"]


def test_condition_of_another_manager_is_left_out_and_reported():
    one = policy("demo", actions="condition", condition_type=KIND)
    other = policy("other", actions="condition")
    world = World(one, other)
    world.foreign = {KIND: {"a": "npd", "c": "npd", "d": "", "gone": "x"}}
    world.report(a=1, b=1, c=0, d=1, e=0)
    assert {node: sorted(found) for node, found in world.plan.conditions.items()} == {
        "a": ["plimsoll.io/Other"],
        "b": [KIND, "plimsoll.io/Other"],
        "d": ["plimsoll.io/Other"],
    }
    assert world.of().conflicts == (
        f"condition {KIND} on 1 of 5 nodes (d) is owned by another reporter: not set",
        f"condition {KIND} on 2 of 5 nodes (a, c) is owned by field manager npd: not set",
    )
    assert world.of("other").conflicts == ()


def test_conflicts_name_a_bounded_number_of_managers():
    world = World(policy(actions="condition", condition_type=KIND))
    world.foreign = {KIND: {node: f"manager-{node}\x1b[2J" for node in "abcde"}}
    world.report(a=1, b=1, c=1, d=1, e=1)
    *named, more = world.of().conflicts
    assert len(named) == 3
    assert named[0].endswith("field manager manager-a\\u001b[2J: not set")
    assert more == f"condition {KIND} is owned by 2 other field managers: not set"


@pytest.mark.parametrize(
    ("types", "permitted"),
    [
        ((), False),
        (("KernelDeadlock",), True),
        (("Kernel*",), True),
        (("*",), True),
        (("KernelDeadlock2", "example.com/*"), False),
    ],
)
def test_types_without_our_prefix_need_the_flag(types, permitted):
    world = World(
        policy(actions="condition", condition_type="KernelDeadlock"), condition_types=types
    )
    world.report(a=1, b=0, c=0, d=0, e=0)
    assert bool(world.plan.conditions.get("a")) is permitted
    assert world.of().problems == (
        ()
        if permitted
        else (
            "plimsoll.io/condition-type: KernelDeadlock does not begin with plimsoll.io/ and --conditionTypes of the evaluator "
            "does not permit it: no condition is set",
        )
    )
