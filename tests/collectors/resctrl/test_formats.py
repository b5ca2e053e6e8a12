import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from collectors.interface.sample import CollectorError
from collectors.resctrl.formats import (
    BandwidthSums,
    ControlGroup,
    Group,
    Increases,
    Unread,
    container_id,
    occupancy,
    parse_reading,
    pod_uid,
)
from tests.examples import examples

EVENT = "mbm_total_bytes"
CELL = ("0", EVENT)


def control(identity: int, reading: int | Unread, *monitors: Group) -> ControlGroup:
    return ControlGroup(identity, f"c{identity}", {CELL: reading}, monitors)


def monitor(identity: int, reading: int | Unread) -> Group:
    return Group(identity, f"m{identity}", {CELL: reading})


def node(*looks: list[ControlGroup]) -> int | None:
    """The node's sum after these reads."""
    sums = BandwidthSums(frozenset({EVENT}))
    for look in looks:
        sums.advance(look)
    return sums.node().get(CELL)


def test_control_groups_sum_from_zero() -> None:
    assert node([control(1, 5000), control(2, 100)]) == 0
    assert node([control(1, 5000), control(2, 100)], [control(1, 5010), control(2, 107)]) == 17


def test_removed_monitor_group_keeps_its_increase() -> None:
    """The control group's count drops by the monitor group's share, from 1000 to 110."""
    assert node([control(1, 1000, monitor(2, 900))], [control(1, 110)]) == 10


def test_monitor_groups_are_included_in_their_control_group() -> None:
    before = [control(1, 1000, monitor(2, 300), monitor(3, 500))]
    after = [control(1, 1060, monitor(2, 310), monitor(3, 530))]
    assert node(before, after) == 60


def test_new_group_counts_from_its_start() -> None:
    assert node([control(1, 1000)], [control(1, 1050, monitor(2, 40)), control(3, 7)]) == 57


def test_moved_monitor_group_is_not_counted_twice() -> None:
    before = [control(1, 1000, monitor(3, 900)), control(2, 50)]
    after = [control(1, 101), control(2, 955, monitor(3, 904))]
    assert node(before, after) == 1 + 4 + 1


def test_temporarily_unavailable_monitor_group_causes_no_peak() -> None:
    """The kernel also omits it from the control group's count: 1000, 100, 1030."""
    looks = [
        [control(1, 1000, monitor(2, 900))],
        [control(1, 100, monitor(2, Unread.UNAVAILABLE))],
        [control(1, 1030, monitor(2, 920))],
    ]
    assert node(*looks) == 30


def test_unassigned_monitor_group_does_not_stop_the_others() -> None:
    looks = [
        [control(1, 100, monitor(2, Unread.UNASSIGNED), monitor(3, 40))],
        [control(1, 130, monitor(2, Unread.UNASSIGNED), monitor(3, 50))],
    ]
    assert node(*looks) == 30


def test_unread_group_has_no_sum() -> None:
    sums = BandwidthSums(frozenset({EVENT}))
    group = control(1, Unread.UNASSIGNED, monitor(2, Unread.UNASSIGNED))
    sums.advance([group])
    assert sums.node() == {}
    assert sums.of(group) == {}


def test_unreadable_group_has_no_sum_until_it_is_read() -> None:
    sums = BandwidthSums(frozenset({EVENT}))
    sums.advance([control(1, 100)])
    sums.advance([control(1, Unread.ERROR)])
    assert sums.node() == {}
    sums.advance([control(1, 130)])
    assert sums.node() == {CELL: 30}


def test_sums_of_groups_are_separate() -> None:
    sums = BandwidthSums(frozenset({EVENT}))
    sums.advance([control(1, 1000, monitor(2, 300))])
    leaf = monitor(2, 310)
    group = control(1, 1050, leaf)
    sums.advance([group])
    assert sums.of(leaf) == {CELL: 10}
    assert sums.of(group) == {CELL: 50}
    alone = control(1, 745)
    sums.advance([alone])
    assert sums.of(alone) == {CELL: 55}, "the monitor group's 10 stay in the control group's sum"
    assert sums.of(leaf) == {}


def test_occupancy_is_the_sum_of_readable_control_groups() -> None:
    cell, event = ("0", "llc_occupancy"), "llc_occupancy"
    leaf = Group(3, "m", {cell: 5})
    groups = [
        ControlGroup(1, "/", {cell: 10, ("1", event): 3}, [leaf]),
        ControlGroup(2, "a", {cell: Unread.UNAVAILABLE, ("1", event): 4}),
    ]
    assert occupancy(groups, event) == {"0": 10, "1": 7}
    assert occupancy([ControlGroup(1, "/", {cell: Unread.ERROR})], event) == {}


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        ("81920\n", 81920),
        ("0\n", 0),
        ("Unavailable\n", Unread.UNAVAILABLE),
        ("Error\n", Unread.ERROR),
        ("Unassigned\n", Unread.UNASSIGNED),
    ],
)
def test_readings_are_parsed(text: str, reading: int | Unread) -> None:
    assert parse_reading(text) == reading


@pytest.mark.parametrize("text", ["", "\n", "-1\n", "1 2\n", "unavailable\n", "0x10\n"])
def test_other_readings_are_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="resctrl"):
        parse_reading(text)


class Leaf:
    """A hardware counter that may be unavailable."""

    def __init__(self, count: int = 0) -> None:
        self.identity = object()
        self.count = count
        self.grown = 0
        self.state: Unread | None = None

    def reading(self) -> int | Unread:
        return self.state or self.count


class Kernel(RuleBasedStateMachine):
    """Groups that are created, moved, removed and unreadable in any order, with counts as the kernel computes them."""

    @initialize(counts=st.lists(st.integers(0, 10**6), min_size=1, max_size=3))
    def boot(self, counts: list[int]) -> None:
        self.controls: dict[Leaf, list[Leaf]] = {Leaf(count): [Leaf(count)] for count in counts}
        self.sums = BandwidthSums(frozenset({EVENT}))
        self.moved = 0
        self.removed = False
        self.before = 0
        self.look()

    def leaves(self) -> list[Leaf]:
        return [leaf for own, parts in self.controls.items() for leaf in (own, *parts)]

    @rule(data=st.data(), amount=st.integers(0, 10**6))
    def traffic(self, data: st.DataObject, amount: int) -> None:
        leaf = data.draw(st.sampled_from(self.leaves()))
        leaf.count += amount
        leaf.grown += amount
        self.moved += amount

    @rule()
    def make_control(self) -> None:
        self.controls[Leaf()] = []

    @rule(data=st.data())
    def make_monitor(self, data: st.DataObject) -> None:
        self.controls[data.draw(st.sampled_from([*self.controls]))].append(Leaf())

    @rule(data=st.data())
    @precondition(lambda self: any(self.controls.values()))
    def remove_monitor(self, data: st.DataObject) -> None:
        parts = data.draw(st.sampled_from([p for p in self.controls.values() if p]))
        parts.pop(data.draw(st.integers(0, len(parts) - 1)))
        self.removed = True

    @rule(data=st.data())
    @precondition(lambda self: len(self.controls) > 1)
    def remove_control(self, data: st.DataObject) -> None:
        del self.controls[data.draw(st.sampled_from([*self.controls]))]
        self.removed = True

    @rule(data=st.data())
    @precondition(lambda self: any(self.controls.values()))
    def move_monitor(self, data: st.DataObject) -> None:
        parts = data.draw(st.sampled_from([p for p in self.controls.values() if p]))
        leaf = parts.pop(data.draw(st.integers(0, len(parts) - 1)))
        self.controls[data.draw(st.sampled_from([*self.controls]))].append(leaf)

    @rule(data=st.data(), state=st.sampled_from([None, *Unread]))
    def be_unreadable(self, data: st.DataObject, state: Unread | None) -> None:
        data.draw(st.sampled_from(self.leaves())).state = state

    @rule()
    def look(self) -> None:
        self.sums.advance([self.shown(own, parts) for own, parts in self.controls.items()])
        now = self.sums.node().get(CELL)
        if now is not None:
            assert self.before <= now <= self.moved
            self.before = now

    def shown(self, own: Leaf, parts: list[Leaf]) -> ControlGroup:
        """A control group's count is the sum of all readable parts, including its own."""
        readable = [leaf.count for leaf in (own, *parts) if leaf.state is None]
        reading = sum(readable) if readable else own.reading()
        monitors = [Group(p.identity, "m", {CELL: p.reading()}) for p in parts]
        return ControlGroup(own.identity, "c", {CELL: reading}, monitors)

    def teardown(self) -> None:
        if not hasattr(self, "controls"):
            return
        for leaf in self.leaves():
            leaf.state = None
        self.look()
        assert self.before >= sum(leaf.grown for leaf in self.leaves())
        if not self.removed:
            assert self.before == self.moved


class TestKernel(Kernel.TestCase):
    settings = settings(max_examples=examples(20), stateful_step_count=40, deadline=None)


def total(*readings: int | None) -> int:
    """The sum over one counter that exists from the first read."""
    increases: Increases[str] = Increases()
    return sum(increases.advance({"a": reading}).get("a", 0) for reading in readings)


def test_count_before_the_first_read_is_no_increase() -> None:
    assert total(5000) == 0
    assert total(5000, 5100, 5100, 5250) == 250


def test_unreadable_counter_starts_at_its_first_reading() -> None:
    assert total(None, None, 5000, 5100) == 100


def test_counter_that_appears_later_starts_at_zero() -> None:
    increases: Increases[str] = Increases()
    increases.advance({"a": 1})
    assert increases.advance({"a": 1, "b": 700}) == {"a": 0, "b": 700}
    assert increases.advance({"a": 1, "b": 700, "c": None}) == {"a": 0, "b": 0}
    assert increases.advance({"c": 30})["c"] == 30


def test_growth_while_unreadable_is_counted_afterwards() -> None:
    assert total(100, None, None, 160) == 60


def test_reset_counter_continues_counting() -> None:
    assert total(1000, 1100, 0, 40, 90) == 100 + 90


def test_temporary_dip_counts_nothing_twice() -> None:
    assert total(1000, 1100, 0, 1105) == 105
    assert total(1000, 1100, 0, 20, 1105) == 125


def test_slightly_lower_reading_is_no_reset() -> None:
    assert total(1000, 998, 999, 1001) == 1


def test_briefly_missing_counter_is_remembered() -> None:
    increases: Increases[str] = Increases()
    increases.advance({"a": 1000})
    increases.advance({})
    assert increases.advance({"a": 1010}) == {"a": 10}


def test_removed_counter_is_forgotten() -> None:
    increases: Increases[str] = Increases()
    increases.advance({"a": 1000})
    for _ in range(3):
        increases.advance({})
    assert increases.advance({"a": 20}) == {"a": 20}


@given(st.lists(st.none() | st.integers(0, 1 << 64), max_size=50))
def test_increase_is_between_zero_and_the_counter(readings) -> None:
    increases: Increases[str] = Increases()
    for reading in readings:
        grown = increases.advance({"a": reading})
        assert grown.keys() == (set() if reading is None else {"a"})
        assert 0 <= grown.get("a", 0) <= (reading or 0)


@given(st.lists(st.tuples(st.integers(0, 1000), st.booleans()), max_size=50))
def test_monotonic_counter_is_counted_exactly(steps) -> None:
    readings, truth = [], 7
    for growth, readable in steps:
        truth += growth
        readings.append(truth if readable else None)
    assert total(7, *readings, truth) == truth - 7


UID = "b933ae96-6ca5-4382-bdae-c3edad27d2a4"
CONTAINER = "efccca1f375f17aa0863195e8b5c9e3c6b85070c298e6323bf0e5c4f8a61c30e"
STATIC = "0c7eea57e8e4ac2ed1b5b1cdd2ba5d2a"


@pytest.mark.parametrize(
    ("name", "uid", "container"),
    [
        (CONTAINER, "", CONTAINER),
        (UID, UID, ""),
        (f"pod-{UID}", UID, ""),
        (f"koordlet-{UID}", UID, ""),
        (f"cadvisor-kubepods-burstable-pod{UID}-{CONTAINER}", UID, CONTAINER),
        (
            f"cadvisor-kubepods.slice-kubepods-pod{UID.replace('-', '_')}.slice-cri-containerd-{CONTAINER}.scope",
            UID,
            CONTAINER,
        ),
        (f"kubepods-pod{STATIC}-{CONTAINER}", STATIC, CONTAINER),
        ("/", "", ""),
        ("guaranteed", "", ""),
        (STATIC, "", ""),
        (f"{CONTAINER}00", "", ""),
        (f"{UID}0", "", ""),
        (f"0{UID}", "", ""),
        (UID.upper(), "", ""),
    ],
)
def test_pod_and_container_ids_are_found_in_names(name: str, uid: str, container: str) -> None:
    assert (pod_uid(name), container_id(name)) == (uid, container)
