"""The scorers' flags, and what is wrong with them together."""

import pytest

from evaluator.config import Settings
from plimsoll import flags
from plimsoll.commandline import Parser


def parse(*argv):
    return flags.parse_settings(Settings, Parser("prog", about=""), argv=argv, env={})


def test_weights_are_told_one_by_one_or_together():
    told = (
        "--scorers=safe,pigeon",
        "--scorerWeights=safe=2, pigeon=3",
        "--scorerWeights=policies=4",
    )
    settings = parse(*told)
    assert settings.mistakes() == []
    assert settings.weights_of_scorers == {"safe": 2, "pigeon": 3, "policies": 4}


def test_nobody_has_a_weight_that_was_not_told():
    assert parse("--scorers=safe").weights_of_scorers == {}


@pytest.mark.parametrize("value", ["safe", "=2", "safe=", "safe=0", "safe=1.5", "safe=2,,"])
def test_what_is_no_weight_is_refused_in_words(value, capsys):
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
def test_weights_that_nobody_would_look_at_are_mistakes(value, sentence):
    assert parse("--scorers=safe", f"--scorerWeights={value}").mistakes() == [sentence]
