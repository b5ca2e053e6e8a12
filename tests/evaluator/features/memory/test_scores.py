"""Scores decay exactly, count each violation once however writers fail, and survive any text in the annotation."""

import json
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evaluator.core.model.names import PolicyKey
from evaluator.features.memory.scores import (
    LEAST,
    LONGEST,
    LONGEST_DEVICE,
    MOST_DEVICES,
    MOST_POLICIES,
    Decaying,
    NodeMemory,
    Score,
    devices,
    parse,
)

DAY = 86_400.0
KEY, OTHER = PolicyKey("ns", "slow"), PolicyKey("ns", "hot")
HALF_LIVES = {KEY: 30 * DAY, OTHER: DAY}
BEGIN = 1_790_000_000.0


def violations(memory, times, half_lives=HALF_LIVES):
    """The memory after violations that begin at these times and end before the next."""
    for at in times:
        memory = memory.after({KEY}, (), half_lives, at)
        memory = memory.after((), (), half_lives, at)
    return memory


@given(st.lists(st.floats(0, 60), min_size=1, max_size=30), st.floats(0, 200), st.randoms())
def test_score_is_the_sum_of_decayed_violations_whenever_it_is_read(gaps, later, random):
    times, at = [], BEGIN
    for gap in gaps:
        at += gap * DAY
        times.append(at)
    memory = NodeMemory("system")
    for one in times:
        memory = violations(memory, [one])
        memory.scores[KEY].now(
            one + random.random() * DAY, HALF_LIVES[KEY]
        )  # reading changes nothing
        memory = parse(memory.text())  # as after a restart
    now = at + later * DAY
    expected = math.fsum(2.0 ** (-(now - one) / HALF_LIVES[KEY]) for one in times)
    # The text has microseconds.
    assert memory.scores[KEY].now(now, HALF_LIVES[KEY]) == pytest.approx(expected, rel=1e-9)


def test_score_does_not_grow_where_clocks_differ():
    score = Score(2.0, BEGIN)
    assert score.now(BEGIN - DAY, DAY) == 2.0
    assert score.counted(BEGIN - DAY, DAY) == Score(3.0, BEGIN, violated=True)


class Cluster:
    """The annotation of a node with versions, as the API server has it: a write names the version that it is based on."""

    def __init__(self):
        self.versions = [""]

    def write(self, based_on, text):
        if based_on == len(self.versions) - 1:
            self.versions.append(text)


ATTEMPTS = st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=4)


@given(st.lists(st.tuples(st.booleans(), ATTEMPTS), max_size=12))
def test_violation_counts_once_although_writers_are_killed_and_read_old_versions(course):
    """Each attempt has a cache that is some versions old, and may be killed before it writes."""
    cluster, before, begun = Cluster(), False, 0
    endless = {KEY: math.inf}
    for number, (violated, attempts) in enumerate(course):
        begun += violated and not before
        before = violated
        for age, killed in (*attempts, (0, False)):
            version = max(0, len(cluster.versions) - 1 - age)
            memory = parse(cluster.versions[version])
            after = memory.after([KEY] if violated else [], (), endless, BEGIN + number)
            if after is not memory and not killed:
                cluster.write(version, after.text())
        found = parse(cluster.versions[-1]).scores.get(KEY, Score(0.0, BEGIN))
        assert (found.value, found.violated) == (begun, violated)


def test_nothing_changes_while_a_violation_goes_on_or_there_is_no_verdict():
    memory = NodeMemory("system").after({KEY}, (), HALF_LIVES, BEGIN)
    assert memory.violated == {KEY}
    assert memory.after({KEY}, (), HALF_LIVES, BEGIN + DAY) is memory
    assert memory.after((), {KEY}, HALF_LIVES, BEGIN + DAY) is memory
    assert NodeMemory("x").after((), {KEY}, HALF_LIVES, BEGIN).scores == {}
    ended = memory.after((), (), HALF_LIVES, BEGIN + DAY)
    assert (ended.violated, ended.scores[KEY].value) == (frozenset(), 1.0)


def test_another_machine_of_the_same_name_starts_anew():
    memory = violations(NodeMemory("old"), [BEGIN])
    assert memory.about("old") is memory
    assert memory.about("new") == NodeMemory("new")


def test_forgotten_scores_and_those_of_gone_policies_go_with_the_next_write():
    gone = PolicyKey("ns", "gone")
    scores = {OTHER: Score(1.0, BEGIN), gone: Score(5.0, BEGIN)}
    later = BEGIN + DAY * math.log2(1 / LEAST) + 1
    found = NodeMemory("s", scores).after({KEY}, (), HALF_LIVES, later)
    assert found.scores.keys() == {KEY}


def test_annotation_is_bounded_and_keeps_what_goes_on_and_the_highest():
    keys = [PolicyKey("n" * 63, f"{number:03}" + "p" * 60) for number in range(MOST_POLICIES + 20)]
    half_lives = dict.fromkeys([*keys, KEY], DAY)
    scores = {key: Score(1.0 + number / 100, BEGIN) for number, key in enumerate(keys)}
    found = NodeMemory("system", scores).after({KEY}, (), half_lives, BEGIN)
    assert len(found.scores) == MOST_POLICIES
    assert KEY in found.scores
    assert keys[-1] in found.scores
    assert keys[0] not in found.scores
    assert len(found.text()) < LONGEST
    assert parse(found.text()) == found


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        "[]",
        "{}",
        '{"systemUUID":"s","scores":[]}',
        '{"systemUUID":1,"scores":{}}',
        '{"systemUUID":"s","scores":{"slow":{"score":1,"at":"2026-01-01T00:00:00Z"}}}',
        '{"systemUUID":"s","scores":{"ns/slow":{"score":-1,"at":"2026-01-01T00:00:00Z"}}}',
        '{"systemUUID":"s","scores":{"ns/slow":{"score":NaN,"at":"2026-01-01T00:00:00Z"}}}',
        '{"systemUUID":"s","scores":{"ns/slow":{"score":1e300,"at":"2026-01-01T00:00:00Z"}}}',
        '{"systemUUID":"s","scores":{"ns/slow":{"score":true,"at":"2026-01-01T00:00:00Z"}}}',
        '{"systemUUID":"s","scores":{"ns/slow":{"score":1,"at":"yesterday"}}}',
        '{"systemUUID":"s","scores":{"ns/slow":{"score":1,"at":5}}}',
        "[" * 5000,
        "9" * (LONGEST + 1),
    ],
)
def test_text_of_others_counts_as_nothing(text):
    assert parse(text) == NodeMemory()


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
def test_any_json_is_read_without_an_error(value):
    parse(json.dumps({"systemUUID": "s", "scores": value}))
    parse(json.dumps(value))


@given(
    st.lists(st.integers(1, 30), min_size=200, max_size=200),
    st.sampled_from([3600.0, 6 * 3600.0, 30 * DAY]),
)
def test_writes_of_a_flapping_node_are_bounded(minutes, half_life):
    """The node toggles every few minutes; while its score is above 3 it stays in violation, and nothing is written."""
    memory, half_lives, now, writes = NodeMemory("s"), {KEY: half_life}, BEGIN, []
    for number, wait in enumerate(minutes):
        now += 60.0 * wait
        score = memory.scores.get(KEY)
        held = score is not None and score.violated and score.now(now, half_life) > 3
        after = memory.after([KEY] if number % 2 == 0 or held else [], (), half_lives, now)
        if after is not memory:
            writes.append(now)
        memory = after
    for begin in writes:
        assert sum(begin <= at < begin + 3600 for at in writes) <= 16


GPU = "gpu: UUID=GPU-1, pci_bus_id=0000:3b:00"


@pytest.mark.parametrize(
    ("cause", "named"),
    [
        ("", []),
        ("dimm_corrected", []),  # a rule without devices
        (GPU, ["UUID=GPU-1"]),
        ("UUID=GPU-1, pci_bus_id=0000:3b:00", ["UUID=GPU-1"]),
        ("model=X, serial=S-1", ["serial=S-1"]),
        ("serial=, device=0000:01:00.0", ["serial=, device=0000:01:00.0"]),
        ("controller=mc0, dimm=dimm3", ["controller=mc0, dimm=dimm3"]),
        (f"{GPU}; rule: UUID=GPU-2; and 3 more", ["UUID=GPU-1", "UUID=GPU-2"]),
        (f"{GPU}; other: UUID=GPU-1", ["UUID=GPU-1"]),
    ],
)
def test_devices_are_named_by_uuid_or_serial_and_else_by_where_they_are(cause, named):
    assert devices(cause) == named


def fails(memory, at, *named, key=KEY):
    """The memory after a violation that these devices cause and that ends."""
    memory = memory.after({key}, (), HALF_LIVES, at, lambda _key: named)
    return memory.after((), (), HALF_LIVES, at)


def test_new_device_starts_anew_and_the_score_of_the_node_stays():
    memory = fails(fails(NodeMemory("system"), BEGIN, "UUID=old"), BEGIN + 30 * DAY, "UUID=old")
    memory = fails(parse(memory.text()), BEGIN + 60 * DAY, "UUID=new")
    score = memory.scores[KEY]
    assert score.now(BEGIN + 60 * DAY, 30 * DAY) == 1.75
    at = {name: one.now(BEGIN + 60 * DAY, 30 * DAY) for name, one in score.devices.items()}
    assert at == {"UUID=old": 0.75, "UUID=new": 1.0}
    assert parse(memory.text()) == memory


def test_violation_that_goes_on_counts_no_device_again():
    once = NodeMemory("system").after({KEY}, (), HALF_LIVES, BEGIN, lambda _key: ["UUID=a"])
    assert once.after({KEY}, (), HALF_LIVES, BEGIN + DAY, lambda _key: ["UUID=b"]) is once


def test_devices_are_bounded_the_lowest_scores_are_dropped_and_names_decide_among_equal_ones():
    memory = fails(fails(NodeMemory("system"), BEGIN, "kept"), BEGIN, "kept")
    names = [f"d{number:02d}" for number in range(2 * MOST_DEVICES)]
    for name in reversed(names):
        memory = fails(memory, BEGIN, name)
    assert sorted(memory.scores[KEY].devices) == [*names[-MOST_DEVICES + 1 :], "kept"]
    memory = fails(memory, BEGIN, "newest", key=OTHER)
    assert sum(len(score.devices) for score in memory.scores.values()) == MOST_DEVICES
    assert "kept" in memory.scores[KEY].devices


@given(st.text(max_size=400) | st.sampled_from([GPU, "a=\x00\x1b[31m\u202e", 'UUID="\\' * 80]))
@example("; ".join(f"UUID={number}" for number in range(1000)))
@example("UUID=" + "\U0001f600" * 5000)
def test_hostile_causes_are_bounded_ascii_that_survives_a_restart(cause):
    named = devices(cause)
    assert len(named) <= MOST_DEVICES
    for name in named:
        assert 0 < len(name) <= LONGEST_DEVICE
        assert name.isascii()
        assert name.isprintable()
    memory = fails(NodeMemory("system"), BEGIN, *named)
    assert parse(memory.text()) == memory


def test_longest_annotation_that_is_written_is_read():
    longest = {PolicyKey("n" * 63, f"{number:0253d}"): 30 * DAY for number in range(MOST_POLICIES)}
    named = [f"{number:0{LONGEST_DEVICE}d}" for number in range(MOST_DEVICES)]
    memory = NodeMemory("s" * 36)
    for at in (BEGIN + 0.123456, BEGIN + 1 / 3):
        memory = memory.after(longest, (), longest, at, lambda _key: named)
    text = memory.text()
    assert len(text) <= 19_500 < LONGEST
    assert parse(text).scores.keys() == longest.keys()
    assert sum(len(score.devices) for score in parse(text).scores.values()) == MOST_DEVICES


@pytest.mark.parametrize(
    "found",
    [
        {"a": {"score": 1}},
        {"a": {"score": -1, "at": "2026-01-01T00:00:00Z"}},
        {"a": {"score": True, "at": "2026-01-01T00:00:00Z"}},
        {"\u202e": {"score": 1, "at": "2026-01-01T00:00:00Z"}},
        {"a" * (LONGEST_DEVICE + 1): {"score": 1, "at": "2026-01-01T00:00:00Z"}},
        {f"{n}": {"score": 1, "at": "2026-01-01T00:00:00Z"} for n in range(MOST_DEVICES + 1)},
        {"": {"score": 1, "at": "2026-01-01T00:00:00Z"}},
        [["a", 1]],
        "abc",
        7,
        None,
    ],
)
def test_devices_that_were_not_written_by_us_count_as_nothing(found):
    entry = {"score": 1.0, "at": "2026-01-01T00:00:00.000000Z", "devices": found}
    assert parse(json.dumps({"systemUUID": "s", "scores": {"ns/slow": entry}})).scores == {}


def test_device_decays_as_its_node():
    assert Decaying(2.0, BEGIN).counted(BEGIN + DAY, DAY) == Decaying(2.0, BEGIN + DAY)
