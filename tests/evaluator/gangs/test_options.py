"""The flags of gangs, and what is wrong with them together."""

import math

import pytest

from evaluator.config import Settings
from plimsoll import flags
from plimsoll.commandline import Parser


def parse(*argv):
    return flags.parse_settings(Settings, Parser("prog", about=""), argv=argv, env={})


def test_nobody_waits_for_a_gang_unless_it_is_asked_for():
    assert not parse().gangs
    assert parse("--gangs").gangs


def test_what_is_decided_by_are_the_flags():
    terms = parse("--gangTimeout=5s").gang_terms
    assert (terms.timeout, terms.backoff, terms.longest_backoff, terms.ageing) == (5, 10, 300, 300)


def test_a_gate_is_never_too_old_unless_a_number_says_so():
    assert parse("--gateMaxAge=0").gang_terms.gate_max_age == math.inf
    assert parse("--gateMaxAge=1h").gang_terms.gate_max_age == 3600


def test_resources_are_ignored_one_by_one_or_together():
    told = ("--gangIgnoredResources=a.io/x, a.io/y", "--gangIgnoredResources=b.io/z")
    assert parse(*told).ignored_resources == {"a.io/x", "a.io/y", "b.io/z", "telemetry/scheduling"}


def test_gang_timeout_of_zero_is_rejected(capsys):
    with pytest.raises(SystemExit):
        parse("--gangTimeout=0s")
    assert "--gangTimeout: not a duration above 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        (
            ("--gateMaxAge=60s",),
            "--gateMaxAge must be greater than --gangTimeout, so that gangs can wait for their turn",
        ),
    ],
)
def test_what_does_not_go_together_is_said(told, sentence):
    assert parse(*told).mistakes() == [sentence]
