"""Scores decay exactly, count each violation once however writers fail, and survive any text in the annotation."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.core.model.names import PolicyKey
from evaluator.features.memory.scores import (
    LEAST,
    LONGEST,
    MOST_POLICIES,
    NodeMemory,
    Score,
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
