"""When groups are due; times in milliseconds."""

from agent.rules.groups.schedule import Schedule


def test_all_groups_are_due_at_once_and_then_aligned_by_interval() -> None:
    schedule = Schedule({"a": 5000, "b": 5000, "c": 2000}, 12_345)
    assert schedule.take(12_345) == {"a": 0, "b": 0, "c": 0}
    assert schedule.next == 14_000
    assert schedule.take(13_999) == {}
    assert schedule.take(14_000) == {"c": 0}
    assert schedule.take(15_000) == {"a": 0, "b": 0}


def test_missed_evaluations_are_counted_and_skipped() -> None:
    schedule = Schedule({"a": 5000}, 0)
    schedule.take(0)
    assert schedule.take(21_000) == {"a": 3}
    assert schedule.next == 25_000


def test_accelerated_group_is_due_each_second_and_returns_to_its_interval() -> None:
    schedule = Schedule({"a": 60_000, "b": 60_000}, 0)
    schedule.take(0)
    schedule.accelerate({"a"}, 10_300)
    assert (schedule.interval("a"), schedule.interval("b"), schedule.next) == (1000, 60_000, 11_000)
    assert schedule.take(11_000) == {"a": 0}
    schedule.accelerate({"a"}, 11_500)
    assert schedule.next == 12_000
    schedule.accelerate((), 11_500)
    assert schedule.take(12_000) == {"a": 0}
    assert schedule.next == 60_000


def test_nothing_is_due_without_groups() -> None:
    schedule = Schedule({}, 0)
    assert schedule.next is None
    assert schedule.take(5) == {}
