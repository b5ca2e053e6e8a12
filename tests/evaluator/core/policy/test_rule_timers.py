"""Rule timers: an update of the changed nodes equals an update of all nodes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evaluator.core.model.node_index import NodeIndex
from evaluator.core.policy.rule_timers import RuleTimers, TimedState
from evaluator.core.policy.types import RuleOptions

NODES = NodeIndex(f"n{number}" for number in range(6))
masks = st.lists(st.booleans(), min_size=6, max_size=6).map(np.array)
seconds = st.sampled_from([0.0, 5.0, 20.0])


@st.composite
def moments(draw):
    """Observations of a rule at some moments, each this many seconds after the last, and the labelled nodes."""
    script = []
    for _ in range(draw(st.integers(1, 8))):
        matches, lacks, never = draw(masks), draw(masks), draw(masks)
        script.append((draw(seconds), TimedState(matches | lacks, lacks & ~matches, lacks & never)))
    return script, draw(masks)


def told(memory):
    columns = (
        memory.blank,
        memory.matches,
        memory.violated,
        memory.missing,
        memory.from_previous_leader,
    )
    since = np.where(memory.matches ^ memory.violated, memory.since, np.nan)
    return [column.tolist() for column in (*columns, memory.never_reported)], np.nan_to_num(
        since
    ).tolist()


@given(moments(), seconds, seconds)
def test_update_of_some_nodes_equals_update_of_all(script, hold, clear):
    terms, now = RuleOptions(hold, clear), 100.0
    few = every = RuleTimers.new(NODES)
    moments, marked = script
    for after, seen in moments:
        now += after
        few = few.after(seen, few.violated | (few.blank & marked), terms, now=now)
        every = every.step(seen, every.violated | (every.blank & marked), terms, now)
        assert told(few) == told(every)
        assert few.due(terms, now) == every.due(terms, now)


def test_unchanged_timers_allocate_nothing():
    seen = TimedState(np.ones(6, dtype=bool), np.zeros(6, dtype=bool), np.zeros(6, dtype=bool))
    terms = RuleOptions(for_seconds=10.0)
    first = RuleTimers.new(NODES).after(seen, np.zeros(6, dtype=bool), terms, now=0.0)
    ripe = first.after(seen, first.violated, terms, now=10.0)
    assert ripe.violated.all()
    assert ripe.after(seen, ripe.violated, terms, now=50.0) is ripe
