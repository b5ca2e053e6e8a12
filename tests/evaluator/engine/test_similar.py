"""Similar metrics are suggested only if nodes have them."""

import pytest

from evaluator.catalog.catalog import Catalog, CatalogEntry
from evaluator.engine.similar import SimilarMetrics
from evaluator.policy.decide import decide
from evaluator.readings.store import Store
from wire.codec import Delta

NOW = 1000.0
CATALOG = Catalog(
    CatalogEntry(name, "gauge", "", (), "test")
    for name in ("node_health_metric", "node_health_metrics", "node_load1")
)


@pytest.fixture
def world(parsed, rule):
    class World:
        def __init__(self):
            self.store = Store(stale_after=30.0, started=0.0)
            self.similar = SimilarMetrics(lambda: CATALOG)
            self.policies = []

        def use(self, *metrics):
            rules = [rule(f"{metric} GreaterThan 5") for metric in metrics]
            self.policies = [parsed(dontschedule=rules)]

        def round(self, **values):
            """Decide and update; then n0 and n1 report these values, and lack all else."""
            wanted = frozenset().union(*(p.metrics for p in self.policies), self.similar.requested)
            self.store.subscribe(wanted)
            for node in ("n0", "n1"):
                self.store.report(
                    node, Delta(values, absent=[m for m in wanted if m not in values]), NOW
                )
            return self.update()

        def update(self):
            decisions = decide(self.policies, ["n0", "n1"], self.store, now=NOW)
            return list(self.similar.update(decisions, self.store, NOW))[-1]

    return World()


def test_metric_of_the_catalog_is_suggested_if_a_node_has_it(world):
    world.use("health_metrc")
    assert world.round()
    assert world.similar.to("health_metrc") is None
    assert world.similar.requested == {"health_metric", "health_metrics"}
    assert world.round(health_metric=1.0)
    assert world.similar.to("health_metrc") == ("health_metric",)
    assert not world.round(health_metric=1.0)  # nothing new


def test_candidates_are_awaited(world):
    world.use("health_metrc")
    world.round()
    world.store.subscribe({"health_metrc", "health_metric", "health_metrics"})
    world.update()
    assert world.similar.to("health_metrc") is None


def test_metric_of_another_policy_is_suggested(world):
    world.similar = SimilarMetrics(None)
    world.use("rack_inlet_temp", "rack_inlet_tmp")
    world.round(rack_inlet_temp=30.0)
    assert world.similar.to("rack_inlet_tmp") == ("rack_inlet_temp",)
    assert world.similar.requested == frozenset()


def test_corrected_metric_needs_no_candidates(world):
    world.use("health_metrc")
    world.round()
    world.use("health_metric")
    assert world.round(health_metric=1.0)
    assert world.similar.requested == frozenset()
    assert world.similar.to("health_metrc") is None


def test_number_of_candidates_is_limited(world):
    world.use(*(f"health_metric_{number}" for number in range(50)))
    world.round()
    world.round()
    assert len(world.similar.requested) <= 60
    assert all(world.similar.to(f"health_metric_{number}") == () for number in range(50))
