"""Which metrics are served: those of policies, and those that match patterns."""

from evaluator.core.loop.served_metrics import ServedMetrics


def test_metrics_of_policies_and_exact_names_are_served():
    served = ServedMetrics(["load5"])
    assert served.names is None
    served.update([frozenset({"health"}), frozenset({"load1", "health"})], ())
    assert served.names == ("health", "load1", "load5")
    assert served.wanted == {"load5"}


def test_names_stay_the_same_object_while_they_are_equal():
    served = ServedMetrics()
    served.update([frozenset({"a", "b"})], ())
    before = served.names
    served.update([frozenset({"b"}), frozenset({"a"})], ())
    assert served.names is before


def test_pattern_stands_for_what_agents_and_conditions_have():
    served = ServedMetrics(
        ["node_load*", "node_condition_*"], conditions=lambda: ["node_condition_Ready"]
    )
    assert served.found(["node_load1", "node_load5", "other"])
    assert not served.found(["node_load5"])
    assert served.wanted == {"node_load1", "node_load5", "node_condition_Ready"}


def test_metrics_over_the_limit_are_not_served():
    served = ServedMetrics(["b"])
    served.update([frozenset({"a", "c"})], {"b", "c"})
    assert served.names == ("a",)


def test_names_of_agents_are_bounded():
    served = ServedMetrics(["n*"])
    assert served.found([f"n{number}" for number in range(2000)])
    assert len(served.wanted) == 1000
    assert not served.found(["none"])
