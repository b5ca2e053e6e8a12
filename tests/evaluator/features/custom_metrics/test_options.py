"""Flags of the custom metrics API."""

import pytest

from evaluator.config import Settings
from evaluator.features.custom_metrics.feature import ServedMetrics
from plimsoll import flags
from plimsoll.commandline import Parser


def settings(*argv):
    return flags.parse_settings(Settings, Parser("prog", about=""), argv=argv, env={})


def test_patterns_are_given_repeatedly_or_with_commas():
    given = settings("--serveMetrics=node_load1,node_pressure_*", "--serveMetrics=node_load1, a:b")
    assert given.served_patterns == ("node_load1", "node_pressure_*", "a:b")


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--serveMetrics=a"], "--serveMetrics requires --customMetricsPort"),
        (["--customMetricsPort=9001"], "9001 is the port of --port"),
        (["--customMetricsPort=9091"], "9091 is the port of --agentPort"),
        (
            ["--customMetricsPort=9444", *(f"--serveMetrics=m{n}" for n in range(101))],
            "--serveMetrics: at most 100 names and patterns",
        ),
    ],
)
def test_mistakes_are_named(argv, sentence):
    assert sentence in " ".join(settings(*argv).mistakes())


@pytest.mark.parametrize("text", ["", "a,", "9a", "a b", "a{b}", "x" * 201])
def test_names_that_no_metric_has_are_rejected(text, capsys):
    with pytest.raises(SystemExit):
        settings(f"--serveMetrics={text}")
    assert "is not the name of a metric" in capsys.readouterr().err


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
