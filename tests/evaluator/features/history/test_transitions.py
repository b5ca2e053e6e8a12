"""History of random worlds: it equals what the decision log says, and leads to the phases of the current decisions."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter
from structlog.testing import capture_logs

from evaluator.core.isolation import Isolation
from evaluator.core.loop.followers import log_changes
from evaluator.core.policy.decide import Decisions, decide
from evaluator.core.policy.durations import Phase
from evaluator.core.policy.strategies import COMPLIANCE
from evaluator.core.readings.reported import NodeCauses, no_cause
from evaluator.core.readings.store import Store
from evaluator.core.signals import Decided
from evaluator.features.history.history import History, Query
from evaluator.features.history.recorder import HistoryMetrics, Recorder
from evaluator.features.history.records import TRANSITIONS, Kind
from evaluator.features.history.series import Series
from tests.examples import examples
from wire.codec import Delta

NODES = ("node-a", "node-b", "node-c")
POLICIES = (("ns-a", "demo"), ("ns-b", "demo"))
IN_VIOLATION = {Phase.VIOLATED.word, Phase.CLEARING.word}

texts = st.builds(
    lambda metric, operator, target: f"{metric} {operator} {target}",
    st.sampled_from(["cpu", "mem"]),
    st.sampled_from(["Equals", "LessThan", "GreaterThan"]),
    st.integers(0, 2),
)
terms = st.fixed_dictionaries(
    {},
    optional={
        "for": st.just("5s"),
        "clearAfter": st.just("5s"),
        "whenMissing": st.just("violate"),
        "logicalOperator": st.just("allOf"),
    },
)
strategies = st.dictionaries(
    st.sampled_from(["dontschedule", "deschedule", "labeling"]),
    st.tuples(st.lists(texts, min_size=1, max_size=2), terms),
)
readings = st.dictionaries(
    st.sampled_from(NODES),
    st.dictionaries(st.sampled_from(["cpu", "mem"]), st.integers(0, 3).map(float)),
)
steps = st.tuples(
    st.one_of(st.none(), st.dictionaries(st.sampled_from(POLICIES), strategies)),
    st.one_of(st.none(), st.sets(st.sampled_from(NODES))),
    readings,
    st.sampled_from([0.0, 3.0, 20.0]),
    st.integers(0, 9).map(lambda number: number == 0),
)
"""Edits of policies, the nodes, reports, seconds until then, and whether the evaluator restarts."""


class Evaluator:
    """Decides like an evaluator, with its history and what its decision log says."""

    def __init__(self, store, cause_of=no_cause, part=None):
        self.store = store
        self.before = Decisions()
        self.now = 0.0
        self.history = History(1 << 20, age=math.inf)
        metrics = HistoryMetrics(CollectorRegistry())
        clock = {"clock": lambda: self.now, "wall": lambda: self.now}
        self.recorder = Recorder(
            self.history, Series(1 << 20), metrics, cause_of=cause_of, part=part, **clock
        )
        self.violating = set()

    def decide(self, policies, nodes, now):
        """Return the records of one decision, and the violations that the log says began and ended."""
        after = decide(policies, nodes, self.store, now=now, before=self.before)
        self.now, newest = now, self.history.newest
        for _ in self.recorder.decided(Decided(after, now)):
            pass
        with capture_logs() as lines:
            for _ in log_changes(self.before, after):
                pass
        self.before = after
        entries = [one.fields for one in self.history.newest_first(Query(after=newest)) if one]
        return entries[::-1], self._logged(lines)

    def _logged(self, lines):
        changed = set()
        for line in lines:
            if line["event"].endswith(" is gone"):
                gone = {one for one in self.violating if one[0] == line["policy"]}
                changed |= {(*one, False) for one in gone}
            elif "node" in line:
                key = (line["policy"], line["strategy"], line["node"])
                changed.add((*key, "no longer violating" not in line["event"]))
        self.violating |= {change[:3] for change in changed if change[3]}
        self.violating -= {change[:3] for change in changed if not change[3]}
        return changed


def of_history(records):
    """Return the violations that began and ended, as the log tells them."""
    return {
        (one["policy"], one["strategy"], one["node"], one["kind"] in IN_VIOLATION)
        for one in records
        if one["kind"] in TRANSITIONS
        and one["strategy"] in {*COMPLIANCE}
        and (one["kind"] in IN_VIOLATION) != (one["was"] in IN_VIOLATION)
    }


def replay(phases, records):
    """Apply transitions to the phase of each node in each strategy; each must begin where the last one ended."""
    for one in records:
        if one["kind"] in TRANSITIONS:
            key = (one["policy"], one["strategy"], one["node"])
            assert phases.get(key, "clear") == one["was"]
            phases[key] = "clear" if one["kind"] == Kind.CLEARED else one["kind"]
    return {key: word for key, word in phases.items() if word != "clear"}


def current(decisions):
    """Return the phase of each node in each strategy, without those that are clear."""
    nodes = decisions.table.nodes
    return {
        (str(key), name.value, node): Phase(phase).word
        for key, decision in decisions.policies.items()
        for name, state in decision.states.items()
        for node, phase in zip(
            nodes,
            state.phases(all_of=decision.policy.strategies[name].all_of).tolist(),
            strict=True,
        )
        if phase
    }


@settings(max_examples=examples(150))
@given(st.lists(steps, max_size=8))
def test_history_equals_the_decision_log_through_edits_and_restarts(parsed, rule, world):
    store, now = Store(stale_after=15.0, started=0.0), 0.0
    store.subscribe(["cpu", "mem"])
    evaluator, phases, bodies, nodes = Evaluator(store), {}, {}, set(NODES)
    generation = 1
    for edit, changed_nodes, reports, seconds, restarts in world:
        if restarts:
            evaluator, phases = Evaluator(store), {}
        if edit is not None:
            bodies, generation = edit, generation + 1
        nodes = nodes if changed_nodes is None else changed_nodes
        policies = [
            parsed(
                name,
                namespace,
                generation=generation,
                **{
                    strategy: {
                        "rules": [
                            rule(text, "card=x") if strategy == "labeling" else rule(text)
                            for text in found
                        ],
                        **common,
                    }
                    for strategy, (found, common) in strategies.items()
                },
            )
            for (namespace, name), strategies in bodies.items()
        ]
        now += seconds
        for node, values in reports.items():
            store.report(node, Delta(values), now)
        records, logged = evaluator.decide(policies, sorted(nodes), now)
        assert of_history(records) == logged
        phases = replay(phases, records)
        assert phases == current(evaluator.before)
        assert all(one["at"] == now for one in records)


def test_violation_names_the_device_and_its_end_only_the_rule(parsed, rule):
    store, causes = Store(stale_after=15.0, started=0.0), NodeCauses()
    store.subscribe(["m"])
    evaluator = Evaluator(store, causes.cause_of)
    policies = [parsed("demo", dontschedule=[rule("m GreaterThan 5")])]
    found = []
    for now, value in ((0.0, 1.0), (1.0, 9.0), (2.0, 1.0)):
        causes.report("node-a", {"m": "gpu: UUID=GPU-1"} if value > 5 else {})
        for node in ("node-a", "node-b"):
            store.report(node, Delta({"m": value}), now)
        found += evaluator.decide(policies, ["node-a", "node-b"], now)[0]
    told = [(one["kind"], one["node"], one.get("cause")) for one in found if "node" in one]
    assert told == [
        ("violated", "node-a", "gpu: UUID=GPU-1"),
        ("violated", "node-b", None),
        ("cleared", "node-a", None),
        ("cleared", "node-b", None),
    ]


@pytest.mark.parametrize("recorded", [True, False])
def test_odd_transition_costs_itself(parsed, rule, recorded):
    """`recorded`: what it comes from raises, so the record lacks that; otherwise the record itself cannot be made."""
    errors = Counter("errors", "", ["part"], registry=CollectorRegistry())
    store = Store(stale_after=15.0, started=0.0)
    store.subscribe(["m"])
    nodes = [f"node-{number:03}" for number in range(100)]

    def cause_of(_metric, node, _source):
        if node != "node-042":
            return "gpu: UUID=GPU-1"
        return 1 / 0 if recorded else ["unhashable"]

    evaluator = Evaluator(store, cause_of, Isolation(errors).part("history"))
    policies = [parsed("demo", dontschedule=[rule("m GreaterThan 5")])]
    for node in nodes:
        store.report(node, Delta({"m": 9.0}), 0.0)
    with capture_logs() as lines:
        evaluator.decide(policies, nodes, 0.0)
    records = [one.fields for one in evaluator.history.newest_first() if one]
    causes = {one["node"]: one.get("cause") for one in records if "node" in one}
    expected = dict.fromkeys(nodes, "gpu: UUID=GPU-1")
    assert causes == {node: text for node, text in expected.items() if node != "node-042"} | (
        {"node-042": None} if recorded else {}
    )
    assert [one["number"] for one in records] == [*range(len(records), 0, -1)]
    assert errors.labels("history")._value.get() == 1
    (line,) = [line for line in lines if line["event"].startswith("internal error")]
    assert "node-042" in line["about"]
