"""The flags of evictions."""

import pytest

from evaluator.config import Settings
from plimsoll import flags
from plimsoll.commandline import Parser


def parse(*argv):
    return flags.parse_settings(Settings, Parser("prog", about=""), argv=argv, env={})


def test_nothing_is_evicted_by_default():
    assert parse().evict is False


@pytest.mark.parametrize("limit", ["0", "-1"])
def test_limit_below_one_is_a_mistake(capsys, limit):
    with pytest.raises(SystemExit) as ended:
        parse(f"--evictLimit={limit}")
    assert ended.value.code == 2
    assert f"--evictLimit: not a number of 1 or more: '{limit}'" in capsys.readouterr().err


def test_period_is_more_than_zero():
    (mistake,) = parse("--evict", "--evictPeriod=0").mistakes()
    assert "--evictPeriod must be more than 0" in mistake
    assert parse("--evict", "--evictPeriod=1ms").mistakes() == []
