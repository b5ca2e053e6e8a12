"""Subscriptions of agents: a list, its generation, and waiting for the next one."""

import asyncio

from evaluator.core.loop.subscription import Subscription, Subscriptions


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
