"""The flags of gangs and their combinations."""

import math

import pytest

from evaluator.config import Settings
from plimsoll import flags
from plimsoll.commandline import Parser


def parse(*argv):
    return flags.parse_settings(Settings, Parser("prog", about=""), argv=argv, env={})


def test_gangs_are_off_by_default():
    assert not parse().gangs
    assert parse("--gangs").gangs


def test_gang_timings_come_from_the_flags():
    timings = parse("--gangTimeout=5s").gang_timings
    assert (timings.timeout, timings.backoff, timings.longest_backoff, timings.ageing) == (
        5,
        10,
        300,
        300,
    )


def test_gates_have_no_maximum_age_by_default():
    assert parse("--gateMaxAge=0").gang_timings.gate_max_age == math.inf
    assert parse("--gateMaxAge=1h").gang_timings.gate_max_age == 3600


def test_resources_may_be_ignored_one_by_one_or_together():
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
def test_incompatible_flags_are_reported(told, sentence):
    assert parse(*told).mistakes() == [sentence]
