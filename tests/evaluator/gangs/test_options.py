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
    terms = parse(
        "--gangTimeout=5s", "--gangBackoff=1s", "--gangBackoffMax=8s", "--gangAgeing=1m"
    ).gang_terms
    assert (terms.timeout, terms.backoff, terms.longest_backoff, terms.ageing) == (5, 1, 8, 60)


def test_a_gate_is_never_too_old_unless_a_number_says_so():
    assert parse("--gateMaxAge=0").gang_terms.gate_max_age == math.inf
    assert parse("--gateMaxAge=1h").gang_terms.gate_max_age == 3600


def test_resources_are_ignored_one_by_one_or_together():
    told = ("--gangIgnoredResources=a.io/x, a.io/y", "--gangIgnoredResources=b.io/z")
    assert parse(*told).ignored_resources == {"a.io/x", "a.io/y", "b.io/z", "telemetry/scheduling"}


@pytest.mark.parametrize("flag", ["gangTimeout", "gangBackoff", "gangBackoffMax", "gangAgeing"])
def test_no_time_is_none(flag, capsys):
    with pytest.raises(SystemExit):
        parse(f"--{flag}=0s")
    assert f"--{flag}: not a duration above 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        (
            ("--gangBackoff=10m", "--gangBackoffMax=5m"),
            "--gangBackoffMax must be at least --gangBackoff",
        ),
        (
            ("--gateMaxAge=60s",),
            "--gateMaxAge must be more than --gangTimeout, or no gang could wait for its turn",
        ),
    ],
)
def test_what_does_not_go_together_is_said(told, sentence):
    assert parse(*told).mistakes() == [sentence]
