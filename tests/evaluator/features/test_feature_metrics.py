"""Each feature declares its metrics; the evaluator exposes those of all features, whatever its flags."""

import pytest
from prometheus_client import Counter

from evaluator.app import Service
from evaluator.config import Settings
from evaluator.features.registry import documented_metrics

ON = {"evict": True, "gangs": True, "scorers": ("pigeon",)}


@pytest.fixture(
    params=[
        pytest.param({}, id="off"),
        pytest.param(ON, id="on", marks=pytest.mark.features("evictions", "gangs", "scorers")),
    ]
)
async def metrics(request, connect):
    settings = Settings(unsafe=True, bind_address="127.0.0.1", **request.param)
    return Service(settings, await connect("http://127.0.0.1:1")).core.metrics


def families(registry):
    return {(family.name, family.type, family.documentation) for family in registry.collect()}


async def test_documented_metrics_are_those_exposed(metrics):
    assert families(metrics.registry) == families(documented_metrics())


async def test_counters_of_a_deleted_policy_are_removed(metrics):
    """Otherwise the series of deleted policies accumulate."""
    counted = 0
    for collector in list(metrics.registry._collector_to_names):
        if isinstance(collector, Counter) and {"namespace", "policy"} <= {*collector._labelnames}:
            labels = dict.fromkeys(collector._labelnames, "x")
            collector.labels(**labels | {"policy": "deleted"}).inc()
            counted += 1
    assert counted
    metrics.forget("x", "deleted")
    left = [
        sample.name
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.labels.get("policy") == "deleted"
    ]
    assert left == []


@pytest.mark.features("evictions", "requeue", "stop")
@pytest.mark.parametrize("given", [{}, {"evict": True, "nudge": False}], ids=str)
async def test_kinds_of_all_actions_are_declared(given, connect):
    """Whatever the flags: the history offers them as filters, and a replica before this one may have done them."""
    settings = Settings(unsafe=True, bind_address="127.0.0.1", **given)
    core = Service(settings, await connect("http://127.0.0.1:1")).core
    stops = ["stopped", "resumed"]
    named = ["leader", "written", "not written", *stops, "evicted", "not evicted", "requeued"]
    assert core.contributions.action_kinds() == named
