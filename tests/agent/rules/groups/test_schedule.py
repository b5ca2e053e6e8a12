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


def test_changed_interval_counts_at_once_and_is_due_at_its_multiples() -> None:
    schedule = Schedule({"a": 60_000, "b": 60_000}, 0)
    schedule.take(0)
    schedule.set("a", 1000, 10_300)
    assert schedule.next == 11_000
    assert schedule.take(11_000) == {"a": 0}
    schedule.set("a", 1000, 11_500)
    assert schedule.next == 12_000
    schedule.set("a", 60_000, 11_500)
    assert schedule.take(12_000) == {"a": 0}
    assert schedule.next == 60_000


def test_added_group_is_due_at_the_next_multiple_of_its_interval_until_removed() -> None:
    schedule = Schedule({"a": 60_000}, 0)
    schedule.take(0)
    schedule.set("b", 1000, 10_300)
    assert schedule.take(11_000) == {"b": 0}
    schedule.remove("b")
    assert schedule.take(12_000) == {}
    assert schedule.next == 60_000


def test_nothing_is_due_without_groups() -> None:
    schedule = Schedule({}, 0)
    assert schedule.next is None
    assert schedule.take(5) == {}
