"""While agents are upgraded, half of them have closed ranges: what they record still compares with the others' (peers.yaml)."""

import random
from pathlib import Path

import numpy as np
import pytest

from agent.record.backfill import backfill
from agent.rules.groups.file import read
from agent.rules.promql import labels
from agent.rules.promql.labels import NAME
from agent.rules.storage import exposition
from evaluator.core.readings.peers import Grouping, statistics
from plimsoll import strictyaml

RULES = Path(__file__).parents[2] / "deploy/rules/peers.yaml"
EVERY = 30_000
NODES = 20
LIMIT = 6
"""The deviation at which the policies of deploy/examples/peer-policies.yaml act."""


def counter(chance, per_second, ticks):
    """A counter that grows by about this much a second."""
    value = chance.uniform(1e3, 1e6)
    for _ in range(ticks):
        value += per_second * EVERY / 1000 * chance.uniform(0.9, 1.1)
        yield value


def samples(node, slow, ticks):
    """The samples of a node; the disk of a slow one takes three times as long."""
    chance = random.Random(node)
    disk = {"device": "nvme0n1", "node": f"node-{node}"}
    series = {
        "node_disk_reads_completed_total": counter(chance, 200, ticks),
        "node_disk_read_time_seconds_total": counter(chance, 0.2 * (3 if slow else 1), ticks),
        "node_disk_writes_completed_total": counter(chance, 100, ticks),
        "node_disk_write_time_seconds_total": counter(chance, 0.3, ticks),
    }
    for name, values in series.items():
        key = labels.make([(NAME, name), *disk.items()])
        for tick, value in enumerate(values):
            yield key, tick * EVERY, value


def recorded(node, *, closed, slow=False, ticks=40):
    """The node's latest results by metric."""
    groups = read(strictyaml.load(RULES.read_text())).groups
    lines = backfill(samples(node, slow, ticks), groups, EVERY, closed=closed)
    found = exposition.parse(b"".join(lines).decode() + "# EOF\n")
    return {
        labels.value(key, NAME): value for key, time, value in found.samples if time == found.latest
    }


def deviations(nodes):
    """The deviation of each node from its peers, by metric."""
    grouping = Grouping(("",), np.zeros(len(nodes), np.intp))
    for metric in nodes[0]:
        values = np.array([node[metric] for node in nodes])
        found = statistics(values, np.ones(len(nodes), bool), grouping, 8)
        yield metric, (values - found.medians[0]) / found.scales[0]


def test_old_and_new_agents_are_peers():
    nodes = [recorded(node, closed=node % 2 == 0) for node in range(NODES)]
    assert len(nodes[0]) == 4
    for metric, deviation in deviations(nodes):
        assert np.abs(deviation).max() < LIMIT / 2, metric


@pytest.mark.parametrize("slow", [6, 7])
def test_slow_disk_is_found_among_old_and_new_agents(slow):
    nodes = [recorded(node, closed=node % 2 == 0, slow=node == slow) for node in range(NODES)]
    found = dict(deviations(nodes))["node_disk_read_latency_seconds"]
    assert list((found > LIMIT).nonzero()[0]) == [slow]


def test_old_and_new_agents_record_other_values():
    """Otherwise the test above says nothing."""
    assert recorded(0, closed=True) != recorded(0, closed=False)
