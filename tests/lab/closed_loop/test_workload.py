"""Arrivals and traces of simulations."""

import numpy as np
import pytest

from lab.closed_loop.workload import (
    TRACE_VALUES,
    Arrivals,
    Nodes,
    TraceError,
    generated_traces,
    parse_traces,
    workload,
)

DAY = ",".join(["25"] * TRACE_VALUES)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "no traces: expected one machine a line, with 288 percentages"),
        ([DAY, "1,2,3"], "line 2: expected 288 percentages from 0 to 100"),
        ([DAY.replace("25", "101")], "line 1: expected 288 percentages from 0 to 100"),
        ([DAY.replace("25", "nan")], "line 1: expected 288 percentages from 0 to 100"),
        ([DAY, "", "busy" + DAY], "line 3: not numbers with commas between them"),
    ],
)
def test_malformed_traces_are_refused(lines, message):
    with pytest.raises(TraceError, match=message):
        parse_traces(lines)


def test_traces_are_shares():
    assert parse_traces([DAY, "\n"]).tolist() == [[0.25] * TRACE_VALUES]


def test_generated_traces_have_the_statistics_of_planetlab():
    traces = generated_traces(2000, np.random.default_rng(3))
    assert 0.10 < traces.mean() < 0.13
    assert 0.05 < np.median(traces.mean(axis=1)) < 0.08
    assert 0.04 < traces.std(axis=1).mean() < 0.08
    assert traces.min() >= 0
    assert traces.max() <= 1


@pytest.mark.parametrize("burst", [False, True])
def test_pods_demand_the_load_on_average(burst):
    rng = np.random.default_rng(5)
    nodes, traces = Nodes(60, 16.0), generated_traces(1000, rng)
    pods = workload(Arrivals(0.6, burst), nodes, traces, rng)
    at = np.arange(5400, 14400, 300)
    demand = [
        sum(pod.demand.mean() for pod in pods if pod.arrives <= t < pod.arrives + pod.life)
        for t in at
    ]
    assert np.mean(demand) == pytest.approx(0.6 * 60 * 16, rel=0.1)
    requested = sum(pod.cpu for pod in pods) / sum(pod.demand.mean() for pod in pods)
    assert requested == pytest.approx(1.0, rel=0.1)


def test_the_same_seed_gives_the_same_pods():
    def names(seed):
        rng = np.random.default_rng(seed)
        pods = workload(Arrivals(0.5, burst=True), Nodes(10, 16.0), generated_traces(20, rng), rng)
        return [(pod.name, pod.arrives, pod.limit, pod.owner) for pod in pods]

    assert names(1) == names(1) != names(2)


def test_half_of_the_bursts_belong_to_replicasets():
    rng = np.random.default_rng(9)
    arrivals = Arrivals(0.7, burst=True, end=144_000.0)
    pods = workload(arrivals, Nodes(60, 16.0), generated_traces(50, rng), rng)
    owned = sum(bool(pod.owner) for pod in pods) / len(pods)
    assert 0.35 < owned < 0.65
