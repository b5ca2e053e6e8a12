"""Ports of features: no two are one."""

import pytest

from evaluator.config import Settings
from plimsoll import flags
from plimsoll.commandline import Parser

pytestmark = pytest.mark.features("gangs", "custom_metrics")


def test_two_features_on_one_port_are_a_mistake():
    argv = ("--gangs", "--gangWebhookPort=9443", "--customMetricsPort=9443")
    settings = flags.parse_settings(Settings, Parser("prog", about=""), argv=argv, env={})
    assert "9443 is the port of --gangWebhookPort" in " ".join(settings.mistakes())
