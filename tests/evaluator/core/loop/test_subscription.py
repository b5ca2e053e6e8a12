"""Subscriptions of agents: a list, its generation, and waiting for the next one. Metrics similar to missing ones are suggested."""

import asyncio

import pytest

from evaluator.core.loop.subscription import SimilarMetrics, Subscription, Subscriptions
from evaluator.core.policy.decide import decide
from evaluator.core.readings.store import Store
from wire.codec import Delta

NOW = 1000.0


def test_subscription_starts_empty_at_generation_one():
    assert Subscriptions().current == Subscription(1, ())


def test_changed_list_is_a_new_generation_and_the_same_list_is_none():
    subscriptions = Subscriptions()
    assert subscriptions.want(["b", "a", "b"])
    assert subscriptions.current == Subscription(2, ("a", "b"))
    assert not subscriptions.want(("a", "b"))
    assert subscriptions.current.generation == 2
    assert subscriptions.want([])
    assert subscriptions.current == Subscription(3, ())


async def test_waiters_are_woken_by_each_change():
    subscriptions = Subscriptions()
    assert (await subscriptions.after(0)).generation == 1
    waiting = [asyncio.create_task(subscriptions.after(1)) for _ in range(3)]
    await asyncio.sleep(0)
    subscriptions.want(["a"])
    subscriptions.want(["b"])
    assert [found.metrics for found in await asyncio.gather(*waiting)] == [("b",)] * 3


async def test_late_waiter_returns_at_once():
    subscriptions = Subscriptions()
    subscriptions.want(["a"])
    assert (await subscriptions.after(1)).metrics == ("a",)


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


def test_nearest_names_come_first_each_once(world):
    for name in ("rack_temp", "rack_temp", "rack_inlet_temp", "node_rack_inlet_temp", "rack_inlet"):
        world.similar.report({"rack_inlet_tmp": (name,)})
    world.update("rack_inlet_tmp", "rack_inlet_temp", rack_inlet_temp=30.0)
    found = world.similar.to("rack_inlet_tmp")
    assert found == ("rack_inlet_temp", "rack_inlet", "rack_temp")


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
