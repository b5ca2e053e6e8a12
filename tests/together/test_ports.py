"""Flags of several features: no two features have one port, and no metric of a scorer is served by its name."""

import pytest

from evaluator.config import Settings
from plimsoll import flags
from plimsoll.commandline import Parser


def mistakes(*argv):
    return flags.parse_settings(Settings, Parser("prog", about=""), argv=argv, env={}).mistakes()


@pytest.mark.features("gangs", "custom_metrics")
def test_port_of_gangs_is_not_that_of_custom_metrics():
    (sentence,) = mistakes("--gangs", "--gangWebhookPort=9443", "--customMetricsPort=9443")
    assert "9443 is the port of --gangWebhookPort" in sentence


@pytest.mark.features("gangs", "scorers")
def test_port_of_gangs_is_not_that_of_a_scorer():
    argv = ("--gangs", "--gangWebhookPort=5", "--scorers=safe", "--scorerPorts=safe=5")
    (sentence,) = mistakes(*argv)
    assert "5 is the port of --scorerPorts" in sentence


@pytest.mark.features("scorers", "custom_metrics")
def test_metric_of_a_scorer_is_served_only_if_a_policy_names_it():
    found = mistakes("--customMetricsPort=9444", "--serveMetrics=plimsoll_risk")
    said = "plimsoll_risk is derived, not measured on nodes: it is served if a policy names it"
    assert said in " ".join(found)
