"""Metrics similar to missing ones are suggested as agents report them, and from other policies."""

import pytest

from evaluator.core.loop.subscription import SimilarMetrics
from evaluator.core.policy.decide import decide
from evaluator.core.readings.store import Store
from wire.codec import Delta

NOW = 1000.0


@pytest.fixture
def world(parsed, rule):
    class World:
        def __init__(self):
            self.similar = SimilarMetrics()
            self.now = NOW

        def update(self, *metrics, **values):
            """Decide for a policy on these metrics; the nodes have these values and lack the rest."""
            policy = parsed(dontschedule=[rule(f"{metric} GreaterThan 5") for metric in metrics])
            store = Store(stale_after=30.0, started=0.0)
            store.subscribe(metrics)
            for node in ("n0", "n1"):
                absent = [metric for metric in metrics if metric not in values]
                store.report(node, Delta(values, absent=absent), self.now)
            decisions = decide([policy], ["n0", "n1"], store, now=self.now)
            return list(self.similar.update(decisions, self.now))[-1]

    return World()


def test_names_that_agents_report_are_suggested(world):
    world.update("health_metrc")
    assert world.similar.to("health_metrc") is None
    assert world.similar.report({"health_metrc": ("health_metric",)})
    assert world.update("health_metrc")
    assert world.similar.to("health_metrc") == ("health_metric",)
    assert not world.similar.report({"health_metrc": ("health_metric",)})
    assert not world.update("health_metrc")


def test_most_frequent_names_come_first(world):
    for name in ("b", "a", "c", "d", "d"):
        world.similar.report({"m": (name,)})
    world.update("m")
    assert world.similar.to("m") == ("d", "a", "b")


def test_agents_without_names_are_not_awaited_for_ever(world):
    world.update("m")
    assert world.similar.to("m") is None
    world.now += 5.0
    assert world.update("m")
    assert world.similar.to("m") == ()


def test_report_without_names_is_an_answer(world):
    world.similar.report({"m": ()})
    world.update("m")
    assert world.similar.to("m") == ()


def test_metric_of_another_policy_is_suggested(world):
    world.similar = SimilarMetrics(agents=False)
    world.update("rack_inlet_temp", "rack_inlet_tmp", rack_inlet_temp=30.0)
    assert world.similar.to("rack_inlet_tmp") == ("rack_inlet_temp",)
    assert world.similar.to("rack_inlet_temp") is None


def test_misspelt_condition_is_compared_with_those_of_the_nodes(world):
    known = {f"node_condition_{name}" for name in ("Ready", "MemoryPressure", "KernelDeadlock")}
    world.similar = SimilarMetrics(conditions=lambda: known)
    world.update("node_condition_KernelDeadlok", "node_condition_Other")
    assert world.similar.to("node_condition_KernelDeadlok") == ("node_condition_KernelDeadlock",)
    assert world.similar.to("node_condition_Other") == ()


def test_names_of_an_earlier_subscription_are_replaced(world):
    world.similar.report({"m": ("old",), "gone": ("x",)})
    world.similar.subscribed({"m"})
    world.update("m", "gone")
    assert world.similar.to("m") == ("old",)  # until agents report again
    assert world.similar.report({"m": ("new",)})
    world.update("m", "gone")
    assert world.similar.to("m") == ("new",)
    assert world.similar.to("gone") is None


def test_number_of_names_is_limited(world):
    for number in range(100):
        world.similar.report({"m": (f"name{number}",)})
    assert not world.similar.report({"m": ("one more",)})
