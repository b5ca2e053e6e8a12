"""Flags of the extender's port: each sets its limit, and contradictions are reported."""

import pytest

from evaluator.features.extender.options import ExtenderOptions
from plimsoll import flags
from plimsoll.commandline import Parser
from plimsoll.http.limits import Limits


def parse(*argv):
    return flags.parse_settings(ExtenderOptions, Parser("prog", about=""), argv=argv, env={})


def test_default_limits_are_those_of_the_server():
    settings = parse()
    assert settings.limits == Limits()
    assert settings.extender_mistakes() == []
    assert settings.allowed_clients == frozenset()


@pytest.mark.parametrize(
    "argv", [("--clientNames=a", "--clientNames=b, c"), ("--clientNames", "a,b,c")]
)
def test_names_may_be_given_one_by_one_or_together(argv):
    assert parse(*argv).allowed_clients == {"a", "b", "c"}


def test_client_names_without_tls_are_rejected():
    (mistake,) = parse("--clientNames=a", "--unsafe").extender_mistakes()
    assert "--clientNames and --unsafe contradict each other" in mistake
