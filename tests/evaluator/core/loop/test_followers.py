"""The gauges of policies reflect the last decisions only."""

from hypothesis import given
from hypothesis import strategies as st

from evaluator.core.loop.followers import PolicyGauges
from evaluator.core.metrics import Metrics
from evaluator.core.policy.decide import decide
from evaluator.core.readings.store import Store
from wire.codec import Delta

NODES = ("a", "b", "c")
worlds = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(["p", "q"]), st.sampled_from(["cpu", "mem"])),
        st.dictionaries(st.sampled_from(NODES), st.integers(0, 2).map(float)),
    ),
    min_size=1,
    max_size=4,
)


def shown(metrics):
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in metrics.registry.collect()
        if family.name.startswith("plimsoll_policy_")
        for sample in family.samples
    }


@given(worlds)
def test_only_the_last_decisions_are_exported(parsed, rule, worlds):
    metrics = Metrics()
    tally, decisions = PolicyGauges(metrics), None
    for named, values in worlds:
        store = Store(stale_after=30.0, started=0.0)
        strict = {"for": "5s", "whenMissing": "violate"}
        policies = [
            parsed(name, dontschedule=[{**rule(f"{metric} Equals 1"), **strict}])
            for name, metric in named.items()
        ]
        store.subscribe({"cpu", "mem"})
        for node, value in values.items():
            store.report(node, Delta({"cpu": value, "mem": value}), 100.0)
        decisions = decide(policies, NODES, store, now=100.0)
        for _ in tally.show(decisions):
            pass
    alone = Metrics()
    for _ in PolicyGauges(alone).show(decisions):
        pass
    assert shown(metrics) == shown(alone)
    assert shown(alone).keys() or not decisions.policies
