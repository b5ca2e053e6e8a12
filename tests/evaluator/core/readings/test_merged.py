"""Several sources as one: which source is used per node, and which is pending."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.core.model.names import PolicyKey
from evaluator.core.policy.decide import decide
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.readings.column import Reading
from evaluator.core.readings.merged import Merged
from evaluator.core.readings.polled import PolledReadings
from evaluator.core.readings.store import Store
from wire.codec import Delta

STALE = 30.0
START = 1000.0
NOW = START + 100
NODES = ("a", "b", "c")


class Sources:
    """Agents first, then Prometheus, both subscribed to the metric `m`."""

    def __init__(self):
        self.store = Store(stale_after=STALE, started=START)
        self.polls = PolledReadings("prometheus", stale_after=STALE, started=START)
        self.merged = Merged({"agents": self.store, "prometheus": self.polls})
        self.merged.subscribe(["m"])
        self.merged.prune(NODES, START)

    def agent(self, node, *values, at=NOW):
        """An agent's report: one value, several samples, or none."""
        several = {"m": len(values)} if len(values) > 1 else {}
        one = {"m": values[0]} if len(values) == 1 else {}
        self.store.report(node, Delta(one, [] if values else ["m"], several), at)

    def prometheus(self, at=NOW, **values):
        self.polls.answer("m", {n: Reading(1, v, at) for n, v in values.items()}, NOW)

    def column(self, now=NOW, nodes=NODES):
        return self.merged.column("m", nodes, now)


@pytest.fixture
def sources():
    return Sources()


def origins(column):
    return [column.origin.names[place] for place in column.origin.numbers.tolist()]


def test_first_fresh_source_wins_per_node(sources):
    sources.agent("a", 1.0)
    sources.agent("b", 2.0, at=NOW - STALE - 1)
    sources.prometheus(a=10.0, b=20.0, c=30.0)
    column = sources.column()
    assert column.values.tolist() == [1.0, 20.0, 30.0]
    assert origins(column) == ["agents", "prometheus", "prometheus"]
    assert column.usable.all()


def test_metric_absent_in_one_source_may_come_from_the_next(sources):
    sources.agent("a")
    sources.prometheus(a=10.0)
    assert sources.column().values[0] == 10.0


def test_several_samples_count_as_a_reading_of_their_source(sources):
    sources.agent("a", 1.0, 2.0)
    sources.prometheus(a=10.0)
    column = sources.column()
    assert column.samples[0] == 2
    assert not column.usable[0]
    assert column.source_at(0) == "agents"


def test_several_samples_are_reported_for_the_aggregation_hint(sources):
    sources.agent("a", 1.0)
    sources.agent("b", 1.0, 2.0)
    sources.polls.answer("m", {"c": Reading(2, math.nan, NOW)}, NOW)
    view = MetricTable(("a", "b", "c"), {"m": sources.column(nodes=("a", "b", "c"))})
    assert "on 2 of 3 nodes: 2 series on b" in view.column("m").ambiguity(())
    assert "agent's --rules.file" in view.column("m").ambiguity(())
    alone = MetricTable(("c",), {"m": sources.polls.column("m", ("c",), NOW)})
    assert "have Prometheus reduce them" in alone.column("m").ambiguity(())


def test_fresh_absence_precedes_a_stale_reading(sources):
    sources.agent("a", 1.0, at=NOW - STALE - 1)
    sources.prometheus(b=1.0)
    column = sources.column()
    assert (column.samples[0], bool(column.fresh[0])) == (0, True)


def test_stale_reading_precedes_none(sources):
    sources.prometheus(a=10.0, at=NOW - STALE - 1)
    column = sources.column()
    assert (column.values[0], bool(column.fresh[0])) == (10.0, False)
    assert origins(column)[0] == "prometheus"


def test_failing_source_does_no_harm_while_another_has_the_reading(sources):
    for node in NODES:
        sources.agent(node, 1.0)
    sources.polls.failed("m", "500")
    column = sources.column()
    assert column.usable.all()
    assert not column.unread.any()
    assert not column.unreported.any()


def test_preferred_source_is_pending_although_the_next_has_reported(sources):
    """Otherwise a label would change twice at a restart if the sources differ."""
    early = START + 1
    sources.polls.answer("m", {node: Reading(1, 1.0, early) for node in NODES}, early)
    assert sources.column(now=early).unreported.all()
    sources.agent("a", 2.0, at=early)
    assert sources.column(now=early).unreported.tolist() == [False, True, True]


def test_next_source_is_not_pending_if_the_preferred_has_reported(sources):
    early = START + 1
    sources.agent("a", 2.0, at=early)
    sources.agent("b", at=early)  # it has no such metric, so Prometheus' reading counts
    assert sources.column(now=early).unreported.tolist() == [False, True, True]


def test_problems_of_each_source_are_listed(sources):
    other = PolledReadings("custom-metrics", stale_after=STALE, started=START)
    merged = Merged({"custom-metrics": other, "prometheus": sources.polls})
    merged.subscribe(["m"])
    other.failed("m", "404")
    sources.polls.failed("m", "500")
    assert merged.column("m", NODES, NOW).fault == "custom-metrics: 404; prometheus: 500"


def test_next_expiry_is_the_earliest_of_all_sources(sources):
    sources.agent("a", 1.0, at=NOW - 3)
    sources.prometheus(a=1.0, at=NOW - 7)
    assert sources.merged.next_expiry(NOW) == NOW - 7 + STALE


def test_no_source_is_an_error():
    with pytest.raises(ValueError, match="no source"):
        Merged({})


def test_policy_reports_a_metric_without_a_source(sources, parsed, rule):
    policy = parsed(dontschedule=[rule("m GreaterThan 1")])
    sources.polls.failed("m", "404: no such metric")
    sentence = "no source has metric m (prometheus: 404: no such metric)"

    def problems(now):
        return decide([policy], NODES, sources.merged, now=now).policies[policy.key].problems

    assert problems(START + 1) == ()  # pending: it may still arrive
    assert problems(NOW) == (sentence,)
    sources.agent("a", 1.0)
    assert problems(NOW) == ()


def test_decisions_use_the_source_with_the_reading(sources, parsed, rule):
    policy = parsed(dontschedule=[rule("m GreaterThan 1")])
    sources.agent("a", 5.0)
    sources.prometheus(a=0.0, b=5.0, c=0.0)
    decision = decide([policy], NODES, sources.merged, now=NOW).policies[PolicyKey("ns", "demo")]
    assert sorted(decision.dontschedule) == ["a", "b"]


cells = st.one_of(
    st.none(),
    st.tuples(
        st.sampled_from([0.0, 1.0, math.nan]),
        st.sampled_from([0, 1, 2]),
        st.floats(NOW - 2 * STALE, NOW),
    ),
)


@given(st.lists(st.dictionaries(st.sampled_from(NODES), cells), min_size=1, max_size=3))
def test_each_cell_is_from_one_source(answers):
    """Never a mixture: value, samples and time are all from the first source in the best state."""
    sources = {}
    for number, answer in enumerate(answers):
        polls = PolledReadings(str(number), stale_after=STALE, started=START)
        polls.subscribe(["m"])
        readings = {node: Reading(c[1], c[0], c[2]) for node, c in answer.items() if c}
        if answer:
            polls.answer("m", readings, NOW)
        sources[str(number)] = polls
    merged = Merged(sources).column("m", NODES, NOW)
    for position, node in enumerate(NODES):
        columns = [polls.column("m", NODES, NOW) for polls in sources.values()]
        states = [
            (bool(c.fresh[position]), bool(c.fresh[position] and c.samples[position]))
            for c in columns
        ]
        chosen = columns[merged.origin.numbers[position]]
        assert states[merged.origin.numbers[position]] == max(states), node
        for part in ("values", "samples", "at", "fresh", "unread"):
            np.testing.assert_equal(
                getattr(merged, part)[position], getattr(chosen, part)[position]
            )


def test_next_source_is_not_read_if_the_first_has_every_node(sources):
    """Several sources cost as much as one while the first is complete."""

    class Unread:
        def column(self, *_args):
            raise AssertionError("nobody needs this")

    for node in NODES:
        sources.agent(node, 1.0)
    assert Merged({"agents": sources.store, "x": Unread()}).column("m", NODES, NOW).usable.all()


class Absences(Sources):
    """Agents that know that nodes never had the metric."""

    def lacks(self, *nodes, at=NOW):
        for node in nodes:
            self.store.report(node, Delta(absent=["m"], never_had=frozenset({"m"})), at)

    def never_had(self, now=NOW):
        found = []
        for merged in (self.merged, Merged({"prometheus": self.polls, "agents": self.store})):
            column = merged.column("m", NODES, now)
            mask = [False] * 3 if column.never_had is None else column.never_had.tolist()
            found.append({*itertools.compress(NODES, mask)})
        assert found[0] == found[1]  # the order of the sources does not matter
        return found[0]


@pytest.fixture
def absences():
    return Absences()


def test_agents_know_that_nodes_never_had_a_metric_if_no_other_source_has_it(absences):
    absences.agent("a", 1.0)
    absences.lacks("b", "c")
    absences.prometheus()
    assert absences.never_had() == {"b", "c"}


def test_prometheus_beside_agents_may_have_what_agents_have(absences):
    absences.agent("a", 1.0)
    absences.lacks("b", "c")
    absences.prometheus(a=1.0)
    assert absences.never_had() == {"b", "c"}


def test_agents_know_nothing_of_a_metric_that_prometheus_reads_elsewhere(absences):
    """Node c may have lost what an exporter beside the agent reported."""
    absences.lacks("a", "b", "c")
    absences.prometheus(a=1.0, b=1.0)
    assert absences.never_had() == set()
    absences.prometheus(at=NOW - STALE - 1, a=1.0)
    assert absences.never_had() == set()


def test_absence_is_unknown_while_another_source_fails_or_is_awaited(absences):
    absences.agent("a", 1.0)
    absences.lacks("b", "c")
    absences.polls.failed("m", "connection refused")
    assert absences.never_had() == set()
    fresh = Absences()
    fresh.lacks("a", "b", "c", at=START)
    assert fresh.never_had(now=START) == set()


def test_polled_sources_know_no_absence(absences):
    absences.prometheus(a=1.0)
    assert absences.never_had() == set()
