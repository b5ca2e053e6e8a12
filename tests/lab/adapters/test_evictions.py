"""Evictions in a simulation: within the limits of their flags."""

from dataclasses import replace

import numpy as np

from evaluator.features.evictions.feature import EvictionOptions
from lab.adapters import evictions
from lab.closed_loop.loop import Timing
from lab.closed_loop.workload import Nodes, equal_pods
from tests.lab.closed_loop.test_loop import BURST, LEAST_USED, loop, plimsoll, policy, rule
from tests.lab.simulate.test_main import POLICY, SMALL, simulated


def test_evicted_pods_are_placed_again_within_the_limits():
    nodes = Nodes(2, 8.0)
    leave = policy(
        scheduleonmetric=LEAST_USED, deschedule=rule("node_cpu_used_cores", "GreaterThan", 5)
    )
    descheduler = evictions.simulated(EvictionOptions(evict=True))
    base = np.array([2.0, 0.0])
    timing = Timing(end=240.0, warm_up=180.0, step=1.0)
    crowded = [replace(pod, cpu=0.0, memory=0.0) for pod in equal_pods(6, BURST)]
    system = plimsoll(nodes, leave, weight=10, descheduler=descheduler)
    system.scores = lambda _pod, feasible, now: (feasible == 0) * 10_000 if now < 45 else 0
    run = loop(nodes, crowded, system, timing, base=base)
    outcome = run.run()
    assert 1 <= outcome.moves <= 18  # one in 10 s
    assert sum(run.placements) == 6
    assert run.placements[0] <= 3


def test_evictions_obey_their_flags(capsys, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY % ("leave", "cpu_utilisation_ratio", "0.5"))
    without = simulated(capsys, "-f", str(policy), *SMALL)[1]
    slow = simulated(capsys, "-f", str(policy), *SMALL, "--evict", "--evictPeriod=5m")[1]
    fast = simulated(capsys, "-f", str(policy), *SMALL, "--evict")[1]
    assert without["moves"] == 0
    assert 0 < slow["moves"] <= 13
    assert slow["moves"] < fast["moves"] <= 361
