"""The flags of scorers and their combinations."""

import pytest

from evaluator.config import Settings
from plimsoll import flags
from plimsoll.commandline import Parser


def parse(*argv):
    return flags.parse_settings(Settings, Parser("prog", about=""), argv=argv, env={})


def test_weights_may_be_given_one_by_one_or_together():
    told = (
        "--scorers=safe,pigeon",
        "--scorerWeights=safe=2, pigeon=3",
        "--scorerWeights=policies=4",
    )
    settings = parse(*told)
    assert settings.mistakes() == []
    assert settings.weights_of_scorers == {"safe": 2, "pigeon": 3, "policies": 4}


def test_no_scorer_has_an_unset_weight():
    assert parse("--scorers=safe").weights_of_scorers == {}


@pytest.mark.parametrize("value", ["safe", "=2", "safe=", "safe=0", "safe=1.5", "safe=2,,"])
def test_invalid_weight_is_rejected_in_words(value, capsys):
    with pytest.raises(SystemExit):
        parse("--scorers=safe", f"--scorerWeights={value}")
    assert "--scorerWeights: not a " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("pigeon=2", "--scorerWeights: 'pigeon' is neither among --scorers nor 'policies'"),
        ("safe=2,safe=3", "--scorerWeights: an extender has one weight"),
    ],
)
def test_unused_weights_are_mistakes(value, sentence):
    assert parse("--scorers=safe", f"--scorerWeights={value}").mistakes() == [sentence]


def test_scorers_and_ports_may_be_given_one_by_one_or_together():
    settings = parse(
        "--scorers=safe, pigeon", "--scorers=template,safe", "--scorerPorts=safe=9011,pigeon=0"
    )
    assert settings.mistakes() == []
    assert settings.enabled_scorers == ("safe", "pigeon", "template")
    assert settings.ports_of_scorers == {"safe": 9011, "pigeon": 0}


def test_no_scorer_is_on_by_default():
    assert (parse().enabled_scorers, parse().ports_of_scorers) == ((), {})


@pytest.mark.parametrize("flag", ["--scorers=", "--scorers=safe,,pigeon", "--scorers=,"])
def test_empty_name_is_rejected_in_words(flag, capsys):
    with pytest.raises(SystemExit):
        parse(flag)
    assert "--scorers: an empty name" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["safe", "=9011", "safe=", "safe=http", "safe=70000", "safe=1,,"])
def test_invalid_port_is_rejected_in_words(value, capsys):
    with pytest.raises(SystemExit):
        parse("--scorers=safe", f"--scorerPorts={value}")
    assert "--scorerPorts: not a " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("pigeon=9012", "--scorerPorts: 'pigeon' is not among --scorers"),
        ("safe=9011,safe=9012", "--scorerPorts: a scorer has one port of its own"),
        ("safe=9011,template=9011", "--scorerPorts: each scorer needs a port of its own"),
        ("safe=9001", "--scorerPorts: 9001 is the port of --port"),
        ("safe=8080", "--scorerPorts: 8080 is the port of --opsPort"),
        ("safe=9091", "--scorerPorts: 9091 is the port of --agentPort"),
    ],
)
def test_impossible_ports_are_mistakes(value, sentence):
    assert parse("--scorers=safe,template", f"--scorerPorts={value}").mistakes() == [sentence]
