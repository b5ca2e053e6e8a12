"""The latest reading per metric and node: what a report sets, confirms, and lets age."""

import itertools
import math

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.core.readings.column import NEVER, Reading
from evaluator.core.readings.store import Store
from wire.codec import Delta

STALE = 30.0
START = 1000.0


@pytest.fixture
def store():
    made = Store(stale_after=STALE, started=START)
    made.subscribe(["cpu", "mem"])
    return made


def absent(*metrics, never):
    """A report that a node does not have these metrics, which it `never` had or has lost."""
    return Delta(absent=metrics, never_had=frozenset(metrics) if never else frozenset())


def cell(store, metric, node, now):
    """One cell of a column, by name."""
    column = store.column(metric, [node], now)
    arrays = {name: found for name, found in column._asdict().items() if len(np.shape(found))}
    first = {name: array[0] for name, array in arrays.items()}
    return first | {"values": column.values[0], "usable": bool(column.usable[0])}


def test_value_is_kept_with_its_time(store):
    store.report("a", Delta({"cpu": 1.5}, ["mem"]), START + 1)
    assert store.reading("cpu", "a") == Reading(1, 1.5, START + 1)
    assert store.reading("mem", "a").samples == 0
    assert store.reading("mem", "a").at == START + 1


@pytest.mark.parametrize(("metric", "node"), [("cpu", "b"), ("disk", "a"), ("mem", "a")])
def test_never_reported_metric_has_no_samples_and_no_time(store, metric, node):
    store.report("a", Delta({"cpu": 1.0}), START)
    found = store.reading(metric, node)
    assert (found.samples, found.at) == (0, NEVER)
    assert math.isnan(found.value)


def test_report_confirms_unnamed_readings(store):
    store.report("a", Delta({"cpu": 1.0, "mem": 2.0}), START)
    store.report("a", Delta({"cpu": 3.0}), START + 5)
    assert store.reading("mem", "a") == Reading(1, 2.0, START + 5)


def test_unread_metric_keeps_its_reading_and_age(store):
    store.report("a", Delta({"cpu": 1.0, "mem": 2.0}), START)
    store.report("a", Delta(unread=["mem"]), START + 5)
    assert store.reading("mem", "a") == Reading(1, 2.0, START)
    assert store.reading("cpu", "a") == Reading(1, 1.0, START + 5)
    assert cell(store, "mem", "a", START + 5)["unread"]


def test_unread_metric_turns_stale_although_the_agent_reports(store):
    store.report("a", Delta({"cpu": 1.0, "mem": 2.0}), START)
    for second in range(5, 36, 5):
        store.report("a", Delta(unread=["mem"]), START + second)
    assert cell(store, "cpu", "a", START + 35)["usable"]
    assert not cell(store, "mem", "a", START + 35)["usable"]


def test_unread_ends_with_the_first_report_that_does_not_name_it(store):
    store.report("a", Delta({"mem": 2.0}), START)
    store.report("a", Delta(unread=["mem"]), START + 40)
    assert not cell(store, "mem", "a", START + 40)["usable"]
    store.report("a", Delta({"mem": 2.0}), START + 41)
    found = cell(store, "mem", "a", START + 41)
    assert (found["usable"], found["unread"]) == (True, False)


def test_first_report_is_pending_for_the_grace_period_if_longer_than_stale_after():
    """Agents need time to reconnect after a restart, even if `--staleAfter` is short: labels stay until then."""
    store = Store(stale_after=STALE, started=START, grace=2 * STALE)
    store.subscribe(["cpu"])
    store.report("a", Delta({"cpu": 1.0}), START)
    late = START + STALE + 1
    assert cell(store, "cpu", "silent", late)["unreported"]
    assert not cell(store, "cpu", "a", late)["usable"]
    assert not cell(store, "cpu", "a", late)["unreported"]
    assert store.next_expiry(late) == START + 2 * STALE
    assert not cell(store, "cpu", "silent", START + 2 * STALE)["unreported"]


def test_grace_period_applies_after_a_suspend_too():
    store = Store(stale_after=STALE, started=START, grace=2 * STALE)
    store.subscribe(["cpu"])
    store.report("a", Delta({"cpu": 1.0}), START + 100)
    resumed = START + 1000
    store.resume(START + 100, resumed)
    late = resumed + STALE + 1
    assert cell(store, "cpu", "a", late)["unreported"]
    assert store.next_expiry(late) == resumed + 2 * STALE
    assert not cell(store, "cpu", "a", resumed + 2 * STALE)["unreported"]


def test_grace_period_is_at_least_the_stale_time():
    store = Store(stale_after=STALE, started=START, grace=STALE / 2)
    store.subscribe(["cpu"])
    assert cell(store, "cpu", "silent", START + STALE - 1)["unreported"]


def test_unreadable_source_is_not_pending_after_startup(store):
    """One failing collector on one node must not block the whole evaluator."""
    store.report("a", Delta({"cpu": 1.0}, unread=["mem"]), START + 1)
    assert cell(store, "mem", "a", START + 1)["unreported"]
    later = START + STALE + 1
    store.report("a", Delta(unread=["mem"]), later)
    found = cell(store, "mem", "a", later)
    assert (found["unreported"], found["usable"], found["unread"]) == (False, False, True)


@pytest.mark.parametrize(
    ("age", "usable"), [(0, True), (STALE, True), (STALE + 1e-6, False), (1e6, False)]
)
def test_reading_counts_up_to_its_bound_and_no_longer(store, age, usable):
    store.report("a", Delta({"cpu": 1.0}), START)
    assert cell(store, "cpu", "a", START + age)["usable"] is usable


@pytest.mark.parametrize(
    ("report", "usable"),
    [
        (Delta({"cpu": 0.0}), True),
        (Delta({"cpu": math.inf}), True),
        (Delta({"cpu": math.nan}), False),
        (Delta(several={"cpu": 2}), False),
        (Delta(absent=["cpu"]), False),
    ],
)
def test_only_a_single_number_is_usable(store, report, usable):
    store.report("a", report, START)
    assert cell(store, "cpu", "a", START)["usable"] is usable


def test_several_samples_are_counted_and_have_no_value(store):
    store.report("a", Delta({"cpu": 1.0}), START)
    store.report("a", Delta(several={"cpu": 3}), START + 1)
    found = store.reading("cpu", "a")
    assert (found.samples, found.at) == (3, START + 1)
    assert math.isnan(found.value)


def test_metrics_without_a_subscription_are_ignored(store):
    store.report("a", Delta({"disk": 1.0}, ["net"], {"gpu": 2}, ["fan"]), START)
    assert store.metrics == {"cpu", "mem"}
    assert store.reading("disk", "a").samples == 0


def test_subscription_change_keeps_readings_of_remaining_metrics(store):
    store.report("a", Delta({"cpu": 1.0, "mem": 2.0}), START)
    store.report("b", Delta({"cpu": 3.0}, unread=["mem"]), START + 1)
    store.subscribe(["aaa", "mem", "zzz"])
    assert store.metrics == {"aaa", "mem", "zzz"}
    assert store.reading("mem", "a") == Reading(1, 2.0, START)
    assert store.reading("cpu", "a").samples == 0
    assert cell(store, "mem", "b", START)["unread"]
    store.subscribe(["cpu", "mem"])
    assert store.reading("mem", "a") == Reading(1, 2.0, START)
    assert store.reading("cpu", "a").at == NEVER  # not its value before it was dropped


def test_every_node_is_pending_at_startup(store):
    assert cell(store, "cpu", "never-heard-of", START + STALE - 1)["unreported"]
    assert not cell(store, "cpu", "never-heard-of", START + STALE)["unreported"]
    store.report("a", Delta({"cpu": 1.0}, ["mem"]), START + 1)
    assert not cell(store, "cpu", "a", START + 2)["unreported"]
    assert not cell(store, "mem", "a", START + 2)["unreported"]


def test_new_metric_is_pending_after_startup_for_reporting_nodes(store):
    now = START + 100
    store.report("alive", Delta({"cpu": 1.0}, ["mem"]), now)
    store.report("dead", Delta({"cpu": 1.0}, ["mem"]), now - STALE - 1)
    store.subscribe(["cpu", "mem", "new"])
    assert cell(store, "new", "alive", now)["unreported"]
    assert not cell(store, "new", "dead", now)["unreported"]
    assert not cell(store, "new", "unknown", now)["unreported"]
    store.report("alive", Delta(absent=["new"]), now + 1)
    assert not cell(store, "new", "alive", now + 1)["unreported"]


def test_reused_row_has_no_data_of_the_forgotten_node(store):
    store.report("old", Delta({"cpu": 1.0}, unread=["mem"]), START)
    assert store.knows("old")
    store.forget("old")
    assert not store.knows("old")
    store.report("new", Delta(), START + 100)
    assert store.reading("cpu", "new").at == NEVER
    assert cell(store, "cpu", "new", START + 100)["unreported"]
    assert store.reading("cpu", "old").samples == 0
    store.forget("nobody")


def test_pruning_forgets_exactly_the_silent_deleted_nodes(store):
    store.report("gone", Delta({"cpu": 1.0}), START)
    store.report("silent", Delta({"cpu": 1.0}), START)
    store.report("early", Delta({"cpu": 1.0}), START + STALE)
    store.prune({"silent"}, START + STALE + 1)
    known = [node for node in ("gone", "silent", "early") if store.knows(node)]
    assert known == ["silent", "early"]


def test_short_lived_names_do_not_accumulate(store):
    rows = store.rows
    for number in range(rows + 100):
        now = START + number * (STALE + 1)
        store.report(f"node-{number}", Delta({"cpu": 1.0}), now)
        store.prune((), now)
    assert store.rows == rows


def test_columns_are_copies_unchanged_by_later_reports(store):
    store.report("a", Delta({"cpu": 1.0}), START)
    column = store.column("cpu", ["a"], START)
    store.report("a", Delta({"cpu": 2.0}), START + 1)
    assert (column.values[0], column.at[0]) == (1.0, START)


def test_column_is_in_the_requested_order(store):
    store.report("a", Delta({"cpu": 1.0}), START)
    store.report("b", Delta({"cpu": 2.0}), START)
    values = store.column("cpu", ["b", "x", "a"], START).values
    np.testing.assert_array_equal(values, [2.0, np.nan, 1.0])


@pytest.mark.parametrize("nodes", [[], ["a"]])
def test_column_of_no_nodes_is_an_empty_column(nodes):
    column = Store(stale_after=STALE, started=START).column("cpu", nodes, START)
    parts = [part for part in column if isinstance(part, np.ndarray)]
    assert [len(part) for part in parts] == [len(nodes)] * 6
    assert not column.usable.any()


@pytest.mark.parametrize(
    ("again", "differs"),
    [
        (Delta(), False),
        (Delta({"cpu": 1.0}), False),
        (Delta({"cpu": 2.0}), True),
        (Delta({"mem": math.nan}), False),
        (Delta(absent=["cpu"]), True),
        (Delta(several={"cpu": 2}), True),
        (Delta(unread=["cpu"]), True),
    ],
)
def test_version_changes_only_with_a_visible_difference(store, again, differs):
    store.report("a", Delta({"cpu": 1.0, "mem": math.nan}), START)
    version = store.version
    store.report("a", again, START + 1)
    assert (store.version != version) is differs


def test_version_changes_when_a_reading_is_fresh_again(store):
    store.report("a", Delta({"cpu": 1.0}), START)
    version = store.version
    store.report("a", Delta(), START + STALE + 1)
    assert store.version > version


def test_forgetting_and_subscribing_change_the_version_and_repetition_does_not(store):
    store.report("a", Delta({"cpu": 1.0}), START)
    version = store.version
    store.subscribe(["mem", "cpu", "mem"])
    assert store.version == version
    store.subscribe(["cpu"])
    assert store.version > version
    version = store.version
    store.forget("a")
    assert store.version > version


def test_next_expiry_is_of_the_oldest_fresh_reading_or_the_grace_period(store):
    assert store.next_expiry(START) == START + STALE
    store.report("a", Delta({"cpu": 1.0}), START + 40)
    assert store.next_expiry(START + 41) == START + 40 + STALE
    assert store.next_expiry(START + 200) == math.inf


def test_thousands_of_nodes_keep_their_rows_while_the_table_grows(store):
    for number in range(3000):
        store.report(f"n{number}", Delta({"cpu": float(number)}, unread=["mem"]), START + number)
    for number in (0, 15, 16, 17, 1023, 2999):
        assert store.reading("cpu", f"n{number}") == Reading(1, float(number), START + number)
        assert cell(store, "mem", f"n{number}", START)["unread"]


# The same store as dictionaries: slow and obvious.
METRICS = ("m0", "m1", "m2")
NODES = tuple(f"n{number}" for number in range(20))
metric = st.sampled_from(METRICS)
node = st.sampled_from(NODES)
steps = st.one_of(
    st.tuples(st.just("subscribe"), st.sets(metric)),
    st.tuples(st.just("forget"), node),
    st.tuples(
        st.just("report"),
        node,
        st.dictionaries(metric, st.sampled_from(["value", "several", "absent", "unread"])),
    ),
)


class Dictionaries:
    """The content as (node, metric) → (samples, value, at)."""

    def __init__(self):
        self.subscribed = set()
        self.known = {}

    def subscribe(self, wanted):
        self.subscribed = wanted
        self.known = {key: fact for key, fact in self.known.items() if key[1] in wanted}

    def forget(self, name):
        self.known = {key: fact for key, fact in self.known.items() if key[0] != name}

    def report(self, name, said, at):
        for (node_, metric_), (samples, value, _) in tuple(self.known.items()):
            if node_ == name and said.get(metric_) != "unread":
                self.known[node_, metric_] = (samples, value, at)
        facts = {"value": (1, at), "several": (int(at) + 2, None), "absent": (0, None)}
        for metric_, what in said.items():
            if metric_ in self.subscribed and what in facts:
                self.known[name, metric_] = (*facts[what], at)


def delta(said, at):
    def named(kind):
        return [metric_ for metric_, what in said.items() if what == kind]

    return Delta(
        dict.fromkeys(named("value"), at),
        named("absent"),
        dict.fromkeys(named("several"), int(at) + 2),
        named("unread"),
    )


@given(st.lists(steps, max_size=60))
def test_table_agrees_with_dictionaries(script):
    store, model = Store(stale_after=STALE, started=0.0), Dictionaries()
    for at, (verb, *arguments) in enumerate(script):
        if verb == "report":
            name, said = arguments
            store.report(name, delta(said, float(at)), float(at))
            model.report(name, said, float(at))
        else:
            getattr(store, verb)(*arguments)
            getattr(model, verb)(*arguments)
    for key in itertools.product(NODES, METRICS):
        samples, value, at = model.known.get(key, (0, None, NEVER))
        found = store.reading(key[1], key[0])
        assert (found.samples, found.at) == (samples, at)
        assert found.value == value if value is not None else math.isnan(found.value)


LATER = START + 10 * STALE


def test_expected_node_is_pending_without_a_reading(store):
    store.report("a", Delta({"cpu": 1.0}, ["mem"]), LATER)
    store.expect("a", LATER + 1)
    found = cell(store, "cpu", "a", LATER + 2)
    assert found["unreported"]
    assert not found["usable"]
    assert store.reading("cpu", "a").samples == 0
    assert not store.knows("a"), "changes relative to the former node's report are meaningless"


def test_expected_node_is_pending_until_its_first_report(store):
    store.expect("a", LATER)
    store.report("a", Delta({"cpu": 2.0}, ["mem"]), LATER + 1)
    found = cell(store, "cpu", "a", LATER + 2)
    assert (found["unreported"], found["usable"], found["values"]) == (False, True, 2.0)
    assert store.next_expiry(LATER + 2) == LATER + 1 + STALE


def test_expected_node_is_pending_no_longer_than_stale_after(store):
    store.expect("a", LATER)
    end = store.next_expiry(LATER + 1)
    assert end == LATER + STALE
    assert cell(store, "cpu", "a", end - 0.1)["unreported"]
    assert not cell(store, "cpu", "a", end)["unreported"]


def test_growth_keeps_expected_nodes(store):
    store.expect("a", LATER)
    for number in range(40):
        store.report(f"n{number}", Delta({"cpu": 1.0}, ["mem"]), LATER)
    store.subscribe(["cpu", "disk"])
    assert cell(store, "disk", "a", LATER + 1)["unreported"]


def test_deleted_expected_node_leaves_nothing_behind(store):
    store.expect("a", LATER)
    store.forget("a")
    store.report("b", Delta({"cpu": 1.0}, ["mem"]), LATER)
    assert not cell(store, "cpu", "a", LATER + 1)["unreported"]
    assert store.next_expiry(LATER + 1) == LATER + STALE


changes = st.one_of(
    st.tuples(st.just("report"), st.sampled_from("abcdef"), st.floats(0, 9), st.booleans()),
    st.tuples(st.just("several"), st.sampled_from("abcdef")),
    st.tuples(st.just("absent"), st.sampled_from("abcdef"), st.booleans()),
    st.tuples(st.just("confirm"), st.sampled_from("abcdef")),
    st.tuples(st.just("forget"), st.sampled_from("abcdef")),
    st.tuples(st.just("subscribe"), st.sets(st.sampled_from(["cpu", "mem", "disk"]))),
    st.tuples(st.just("reserve"), st.integers(0, 100)),
    st.tuples(st.just("read"), st.sampled_from(["cpu", "mem"])),
)


def change(store, what, at):
    match what:
        case ("report", node, value, unread):
            metrics = (["mem"], []) if unread else ([], ["mem"])
            store.report(node, Delta({"cpu": value}, metrics[1], {}, metrics[0]), at)
        case ("several", node):
            store.report(node, Delta(several={"cpu": 2}), at)
        case ("absent", node, never):
            store.report(node, absent("cpu", never=never), at)
        case ("confirm", node):
            store.report(node, Delta(), at)
        case ("read", metric):
            store.column(metric, tuple("abcdef"), at)
        case (name, argument):
            getattr(store, name)(argument)


def plain(column):
    return [np.asarray(part).tolist() for part in column]


@given(st.lists(changes), st.lists(changes, min_size=1))
def test_snapshot_is_consistent_during_later_reports(before, meanwhile):
    """One reader reads each column at once, the other after all later changes."""
    nodes, now = tuple("abcdef"), START + 50

    def made():
        store = Store(stale_after=STALE, started=START)
        store.subscribe(["cpu", "mem"])
        for number, what in enumerate(before):
            change(store, what, START + number % 50)
        return store

    expected = [plain(made().column(metric, nodes, now)) for metric in ("cpu", "mem")]
    store = made()
    with store.snapshot(nodes) as frozen:
        expiry = frozen.next_expiry(now)
        for number, what in enumerate(meanwhile):
            change(store, what, now + number)
            if number % 3 == 0:
                frozen.column("cpu", nodes, now)
        found = [plain(frozen.column(metric, nodes, now)) for metric in ("cpu", "mem")]
        assert repr(found) == repr(expected)  # NaN equals NaN
        assert frozen.next_expiry(now) == expiry
    after = [plain(store.column(metric, nodes, now + 60)) for metric in ("cpu", "mem")]
    anew = made()
    for number, what in enumerate(meanwhile):
        change(anew, what, now + number)
    assert repr(after) == repr([plain(anew.column(m, nodes, now + 60)) for m in ("cpu", "mem")])


def test_store_is_sized_for_the_cluster_before_reports(store):
    store.prune([f"node-{number}" for number in range(5_000)], START)
    rows = store.rows
    for number in range(5_000):
        store.report(f"node-{number}", Delta({"cpu": 1.0}), START)
    assert store.rows == rows  # nothing was moved


def test_readings_survive_growth_beyond_the_reserved_rows_and_columns(store):
    store.report("a", Delta({"cpu": 1.0, "mem": 2.0}), START)
    store.reserve(store.rows + 1)
    store.subscribe([*(f"m{number}" for number in range(2000)), "mem"])
    store.report("b", Delta({"m1999": 3.0}), START + 1)
    assert store.reading("mem", "a") == Reading(1, 2.0, START)
    assert store.reading("m1999", "b") == Reading(1, 3.0, START + 1)
    assert store.reading("m7", "a").samples == 0


def test_tables_take_memory_only_for_used_metrics_and_nodes():
    """The tables have rows for 16,384 nodes and 1,024 metrics, of which most clusters use few."""
    before = resident()
    store = Store(stale_after=STALE, started=START)
    store.subscribe(["cpu", "mem"])
    nodes = [f"node-{number}" for number in range(1000)]
    store.prune(nodes, START)
    for node in nodes:
        store.report(node, Delta({"cpu": 1.0, "mem": 2.0}), START)
    for metric in ("cpu", "mem"):
        store.column(metric, nodes, START)
    assert resident() - before < 4 << 20


def resident():
    """The resident memory of this process in bytes."""
    return psutil.Process().memory_info().rss


def test_new_metrics_use_spare_columns_without_a_copy(store):
    store.report("a", Delta({"cpu": 1.0, "mem": 2.0}), START)
    store.subscribe([f"m{number}" for number in range(100)])
    store.subscribe([f"m{number}" for number in range(100)] + ["cpu"])
    assert store.reading("cpu", "a").samples == 0  # the earlier content of its column is dropped
    assert store.reading("m5", "a").samples == 0


def never_had(store, metric, nodes=("a", "b"), now=START + 1):
    found = store.column(metric, tuple(nodes), now).never_had
    return set() if found is None else {*itertools.compress(nodes, found.tolist())}


def test_metric_that_the_node_never_had_is_told_from_a_lost_one(store):
    store.report("a", absent("cpu", "mem", never=True), START)
    store.report("b", absent("cpu", never=False), START)
    assert (never_had(store, "cpu"), never_had(store, "mem")) == ({"a"}, {"a"})
    column = store.column("cpu", ("a", "b"), START)
    assert (column.samples.tolist(), column.usable.tolist()) == ([0, 0], [False, False])
    assert store.reading("cpu", "a").samples == 0


def test_reason_of_an_absence_changes_without_another_reading(store):
    store.report("a", absent("cpu", never=True), START)
    version = store.version
    store.report("a", absent("cpu", never=False), START)
    assert (never_had(store, "cpu"), store.version) == (set(), version + 1)
    store.report("a", absent("cpu", never=False), START)
    assert store.version == version + 1


def test_value_ends_an_absence_and_its_loss_is_none(store):
    store.report("a", absent("cpu", never=True), START)
    store.report("a", Delta({"cpu": 1.0}), START)
    assert (never_had(store, "cpu"), cell(store, "cpu", "a", START)["usable"]) == (set(), True)
    store.report("a", absent("cpu", never=False), START)
    assert never_had(store, "cpu") == set()


def test_unread_and_stale_metrics_are_not_absent(store):
    store.report("a", absent("cpu", "mem", never=True), START)
    store.report("a", Delta(unread=["cpu"]), START + 1)
    assert (never_had(store, "cpu"), never_had(store, "mem")) == (set(), {"a"})
    store.report("a", absent("cpu", never=True), START + 2)
    assert never_had(store, "cpu", now=START + 2) == {"a"}
    assert never_had(store, "cpu", now=START + 3 + STALE) == set()


def test_node_that_is_registered_again_has_no_absence(store):
    store.report("a", absent("cpu", never=True), START)
    store.expect("a", START + 1)
    assert never_had(store, "cpu") == set()


def test_absences_survive_growth(store):
    store.report("a", absent("cpu", never=True), START)
    store.reserve(store.rows + 1)
    store.subscribe([*(f"m{number}" for number in range(2000)), "cpu"])
    assert never_had(store, "cpu") == {"a"}
