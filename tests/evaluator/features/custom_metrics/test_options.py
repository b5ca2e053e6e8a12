"""Flags of the custom metrics API."""

import pytest

from evaluator.config import Settings
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
            ["--gangs", "--gangWebhookPort=9443", "--customMetricsPort=9443"],
            "9443 is the port of --gangWebhookPort",
        ),
        (
            ["--customMetricsPort=9444", "--serveMetrics=plimsoll_risk"],
            "plimsoll_risk is derived by a scorer and served if a policy names it",
        ),
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
