"""When failing rules are sent."""

import pytest

from agent.stream.failing import ChangedFailingRules
from wire.failing_rules import FailingRule

ONE = FailingRule("", "g", "a", "evaluation", "text")
OTHER = ONE._replace(rule="b")


@pytest.fixture
def failing():
    rules = {}
    return rules, ChangedFailingRules(lambda: dict(rules))


def test_nothing_is_sent_while_no_rule_fails(failing):
    _, changed = failing
    assert changed.take(0.0, full=True) is None
    assert changed.take(5.0, full=False) is None


def test_failing_rules_are_sent_when_they_change_and_with_full_reports(failing):
    rules, changed = failing
    rules[ONE] = 2.0
    assert changed.take(0.0, full=True) == {ONE: 2.0}
    rules[ONE] = 7.0  # its age alone is no change
    assert changed.take(5.0, full=False) is None
    assert changed.take(10.0, full=True) == {ONE: 7.0}
    rules[OTHER] = 0.0
    assert changed.take(15.0, full=False) == {ONE: 7.0, OTHER: 0.0}
    rules.clear()
    assert changed.take(20.0, full=False) == {}
    assert changed.take(25.0, full=False) is None


def test_flapping_rule_is_sent_at_a_limited_rate_and_its_last_state_in_the_end(failing):
    rules, changed = failing
    changed.take(0.0, full=True)
    sent = 0
    for second in range(300):
        rules.pop(ONE, None) if second % 2 else rules.setdefault(ONE, 0.0)
        sent += changed.take(float(second), full=False) is not None
    assert 3 <= sent <= 13
    rules[ONE] = 0.0
    rules[OTHER] = 0.0
    assert changed.take(400.0, full=False) == {ONE: 0.0, OTHER: 0.0}
