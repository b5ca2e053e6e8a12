"""The closed loop: placement decides use, and systems see use late."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.core.policy.parse import parse
from lab.adapters.registry import VERBS
from lab.closed_loop.loop import ClosedLoop, Timing
from lab.closed_loop.systems import DefaultPlugins, Plimsoll
from lab.closed_loop.use import UseHistory
from lab.closed_loop.workload import (
    Arrivals,
    Nodes,
    SimulatedPod,
    equal_pods,
    generated_traces,
    workload,
)

BURST = SimulatedPod("burst", 30.0, np.inf, 0.2, 2.0**26, 0.8, np.full(1, 0.8))
TWENTY = Nodes(20, 8.0)
MINUTES = Timing(end=180.0, warm_up=60.0, step=1.0)


def policy(**rules):
    strategies = {name: {"rules": [rule]} for name, rule in rules.items()}
    return parse({"metadata": {"name": "p", "namespace": "n"}, "spec": {"strategies": strategies}})


def rule(metric, operator, target=0):
    return {"metricname": metric, "operator": operator, "target": str(target)}


LEAST_USED = rule("node_cpu_used_cores", "LessThan")


def loop(nodes, pods, system=None, timing=MINUTES, seed=1, base=None):
    rng = np.random.default_rng(seed)
    return ClosedLoop(nodes, pods, system or DefaultPlugins(), timing, rng, base=base)


def plimsoll(nodes, one, weight=1, descheduler=None):
    return Plimsoll(nodes, [one], VERBS, weight=weight, descheduler=descheduler)


def test_default_plugins_spread_a_burst_evenly():
    run = loop(TWENTY, equal_pods(100, BURST), base=np.linspace(2, 4, 20))
    outcome = run.run()
    assert run.placements == [5] * 20
    assert outcome.most == pytest.approx((4 + 5 * 0.8) / 8)


def test_pods_that_come_one_by_one_go_to_the_least_used_node():
    nodes = Nodes(3, 8.0)
    pods = [replace(BURST, name=f"pod-{n}", arrives=60.0 * n + 30) for n in range(4)]
    run = loop(
        nodes,
        pods,
        plimsoll(nodes, policy(scheduleonmetric=LEAST_USED), weight=10),
        Timing(end=300.0, warm_up=0.0, step=1.0),
        base=np.array([3.0, 1.0, 5.0]),
    )
    run.run()
    assert run.placements == [1, 3, 0]


def test_dontschedule_keeps_pods_pending():
    nodes = Nodes(2, 8.0)
    full = policy(dontschedule=rule("node_cpu_utilisation_ratio", "GreaterThan", 0.4))
    run = loop(nodes, equal_pods(3, BURST), plimsoll(nodes, full), base=np.array([4.0, 4.0]))
    outcome = run.run()
    assert (outcome.pods, outcome.pending) == (0, 3)


def test_window_is_the_mean_of_its_seconds_and_age_moves_it_back():
    history = UseHistory(np.array([1.0]), 10, 5.0)
    for use in (3.0, 5.0):
        history.add(np.array([use]))
    assert history.mean(5).tolist() == [5.0]
    assert history.mean(10).tolist() == [4.0]
    assert history.mean(20).tolist() == [2.5]  # two steps before the start use the base
    assert history.mean(5, age=5).tolist() == [3.0]
    assert history.deviation(10).tolist() == [1.0]


@settings(max_examples=15)
@given(st.integers(0, 1000), st.booleans())
def test_every_pod_is_placed_once_and_demand_is_met_or_counted(seed, burst):
    rng = np.random.default_rng(seed)
    nodes, traces = Nodes(6, 16.0), generated_traces(50, rng)
    arrivals = Arrivals(0.5, burst, life=600.0, end=600.0, ramp=60.0)
    pods = workload(arrivals, nodes, traces, rng)
    timing = Timing(end=720.0)
    outcome = loop(nodes, pods, timing=timing, seed=seed).run()
    again = loop(nodes, pods, timing=timing, seed=seed).run()
    assert outcome.figures == again.figures
    assert outcome.pods + outcome.pending == len(pods)
    assert 0 <= outcome.hot <= 1
    assert (outcome.use <= 1 + 1e-9).all()
    assert outcome.unmet > 0 or outcome.most <= 1
