"""The backtest decides as the live evaluator does: both get the same samples, and every decision at every moment is equal."""

import tempfile

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.loop.subscription import Subscriptions
from evaluator.core.metrics import Metrics
from evaluator.core.model.node import Node, NodeMeta
from evaluator.core.model.node_index import NodeIndex
from evaluator.core.policy import parse
from evaluator.core.readings.merged import Merged
from evaluator.core.readings.store import Store
from lab.backtest.inputs.dump import read_sources
from lab.backtest.inputs.source import Request
from lab.record import Recorder
from lab.replay.grid import EXPIRY_PAUSE
from lab.replay.replay import Replay, Timing
from lab.replay.samples import Recording, Series, merged
from tests.evaluator.conftest import make_tas
from tests.examples import examples
from wire.codec import Delta

GREATER_THAN_0 = {"metricname": "two", "operator": "GreaterThan", "target": 0}
START, STEP, STALE = 1_700_000_000.0, 10.0, 25.0
NODES = NodeIndex(["node-a", "node-b", "node-c"])
METRICS = ("one", "two")
ABSENT, NEVER, GAP = "absent", "never had", "gap"

durations = st.sampled_from(["", "7s", "10s", "20s", "33s"])
operators = st.sampled_from(["GreaterThan", "LessThan", "Equals"])
READ = [GAP, GAP, 0.0, 1.0, 2.0, 3.0, float("nan")]
cells = st.sampled_from([*READ, ABSENT])


@st.composite
def bodies(draw, labels):
    rules = [
        {
            "metricname": draw(st.sampled_from(METRICS)),
            "operator": draw(operators),
            "target": draw(st.integers(0, 3)),
            "for": draw(durations) or "0s",
            "clearAfter": draw(durations) or "0s",
            "whenMissing": draw(st.sampled_from(["ignore", "violate"])),
            **({"labels": [f"level={number}"]} if labels else {}),
        }
        for number in range(draw(st.integers(1, 3)))
    ]
    return {"logicalOperator": draw(st.sampled_from(["anyOf", "allOf"])), "rules": rules}


@st.composite
def policies(draw):
    found = []
    for name in draw(st.sampled_from([("p",), ("p", "q")])):
        names = draw(
            st.sets(st.sampled_from(["dontschedule", "deschedule", "labeling"]), min_size=1)
        )
        by_name = {s: draw(bodies(s == "labeling")) for s in sorted(names)}
        found.append(parse.parse(make_tas(name, **by_name)))
    return found


@st.composite
def scrapes(draw, cells=cells):
    """Tick → node → metric → value, ABSENT, NEVER (had) or GAP (no sample)."""
    ticks = draw(st.integers(1, 25))
    same = st.integers(1, 6)  # repeats make durations end
    table = []
    while len(table) < ticks:
        row = {n: {m: draw(cells) for m in METRICS} for n in NODES}
        table += [row] * draw(same)
    return table[:ticks]


class Live:
    """The evaluator's decision loop and stores, on a clock that the test sets."""

    def __init__(self, wanted, now, labels=None, *, sources=1):
        self.now = now
        self.cluster = ClusterCache(stale_after=1e9)
        self.stores = [Store(stale_after=STALE, started=now) for _ in range(sources)]
        self.store = self.stores[0]
        readings = Merged({str(number): store for number, store in enumerate(self.stores)})
        self.loop = DecisionLoop(
            self.cluster,
            readings if sources > 1 else self.store,
            Subscriptions(),
            Metrics(),
            clock=lambda: self.now,
        )
        self.cluster.policies.replace(wanted)
        self.cluster.nodes.replace(
            [node_with((labels or {}).get(name, {}), name) for name in NODES]
        )
        self.cluster.pods.replace([])
        for store in self.stores:
            store.subscribe(METRICS)

    def decide(self, now):
        self.wait(now)
        self.now = now
        self.loop.evaluate()
        return self.loop.latest

    def wait(self, until):
        """Evaluate when decisions expire, as the loop does; it would else take itself for suspended."""
        while (due := self.loop.latest.valid_until + EXPIRY_PAUSE) < until:
            self.now = due
            self.loop.evaluate()


def node_with(labels, name):
    meta = NodeMeta(name=name, uid=name, labels=dict(labels))
    meta.owned_labels = frozenset(labels)
    return Node(meta)


def report(store, node, values, at):
    if all(value == GAP for value in values.values()):
        return
    store.report(
        node,
        Delta(
            {m: v for m, v in values.items() if isinstance(v, float)},
            absent=[m for m, v in values.items() if v in {ABSENT, NEVER}],
            never_had=frozenset(m for m, v in values.items() if v == NEVER),
            unread=[m for m, v in values.items() if v == GAP],
        ),
        at,
    )


def recording(table):
    found = {}
    for metric in METRICS:
        series = []
        for node in NODES:
            samples = [
                (START + STEP * tick, row[node][metric])
                for tick, row in enumerate(table, start=1)
                if row[node][metric] != GAP
            ]
            values = [v if isinstance(v, float) else np.nan for _, v in samples]
            counts = [int(isinstance(v, float)) for _, v in samples]
            at = np.array([t for t, _ in samples], dtype=float)
            series.append(Series(NODES.position[node], at, np.array(values), np.array(counts, int)))
        found[metric] = merged(series, STALE)
    return Recording(NODES, found)


def summary(decisions):
    return {
        key: {
            "dontschedule": dict(one.dontschedule),
            "deschedule": dict(one.deschedule),
            "labels": {node: dict(labels) for node, labels in one.labels.items()},
            "missing": {metric: tuple(nodes) for metric, nodes in one.missing.items()},
            "absent": {metric: tuple(nodes) for metric, nodes in one.absent.items()},
            "unreported": one.unreported,
            # A recording does not tell a metric that no node has from one that is not recorded.
            "problems": [text for text in one.problems if not text.startswith("no node has")],
            "per rule": {
                name: (state.found.per_rule.tolist(), state.found.missing.tolist())
                for name, state in one.states.items()
            },
        }
        for key, one in decisions.policies.items()
    } | {"labels": {node: dict(labels) for node, labels in decisions.labels.items()}}


@settings(max_examples=examples(40), deadline=None)
@given(policies(), scrapes(), st.sets(st.integers(1, 24), max_size=2))
@example(
    [
        parse.parse(
            make_tas(
                "p",
                deschedule={
                    "rules": [
                        {
                            "metricname": "one",
                            "operator": "GreaterThan",
                            "target": 1,
                            "for": "20s",
                            "clearAfter": "33s",
                        }
                    ]
                },
            )
        )
    ],
    [
        {n: {"one": v, "two": GAP} for n in NODES}
        for v in (2.0, 2.0, 2.0, GAP, GAP, GAP, 0.0, 0.0, 2.0)
    ],
    set(),
)
@example(
    [parse.parse(make_tas("p", deschedule={"rules": [GREATER_THAN_0]}))],
    [
        {n: {"one": GAP, "two": GAP} for n in ("node-a", "node-b")}
        | {"node-c": {"one": ABSENT, "two": GAP}},
        {n: {"one": GAP, "two": GAP} for n in ("node-a", "node-c")}
        | {"node-b": {"one": GAP, "two": ABSENT}},
    ],
    set(),
)
def test_every_decision_is_that_of_the_live_evaluator(wanted, table, restarts):
    replay = Replay(wanted, NODES, Timing(STEP, STALE), start=START)
    live = Live(wanted, START)
    recorded, delivered = recording(table), 0
    ends = sorted({*(r for r in restarts if r < len(table)), len(table) + 8})
    tick, replayed = 0, None
    for end in ends:
        steps = [*replay.run(recorded, START + STEP * end)]
        moments = sorted({s.at for s in steps} | {START + STEP * t for t in range(tick, end + 1)})
        by_time = {s.at: s.decisions for s in steps}
        for now in moments:
            while delivered < len(table) and START + STEP * (delivered + 1) <= now:
                delivered += 1
                live.wait(START + STEP * delivered)
                for node, values in table[delivered - 1].items():
                    report(live.store, node, values, START + STEP * delivered)
            replayed = by_time.get(now, replayed)
            assert summary(replayed) == summary(live.decide(now)), now - START
        replay.restart()
        tick = end
        live = Live(wanted, START + STEP * end, live.loop.latest.labels)


@settings(max_examples=examples(20), deadline=None)
@given(policies(), st.lists(scrapes(), min_size=2, max_size=3))
def test_several_sources_are_merged_as_live(wanted, tables):
    first, *others = [recording(table).metrics for table in tables]
    end = max(map(len, tables)) + 8
    replay = Replay(wanted, NODES, Timing(STEP, STALE), start=START, sources=len(tables))
    steps = {s.at: s for s in replay.run(Recording(NODES, first, others), START + STEP * end)}
    live, delivered, replayed = Live(wanted, START, sources=len(tables)), 0, None
    for now in sorted({*steps, *(START + STEP * tick for tick in range(end + 1))}):
        while delivered < end and START + STEP * (delivered + 1) <= now:
            delivered += 1
            at = START + STEP * delivered
            live.wait(at)
            for store, table in zip(live.stores, tables, strict=True):
                for node, values in table[delivered - 1].items() if delivered <= len(table) else ():
                    report(store, node, values, at)
        replayed = steps[now].decisions if now in steps else replayed
        assert summary(replayed) == summary(live.decide(now)), now - START


@settings(max_examples=examples(20), deadline=None)
@given(policies(), scrapes())
def test_skipping_changes_no_decision(wanted, table):
    recorded, end = recording(table), START + STEP * (len(table) + 8)
    every = Replay(wanted, NODES, Timing(STEP, STALE), start=START, skip=False)
    few = Replay(wanted, NODES, Timing(STEP, STALE), start=START)
    by_time = {step.at: summary(step.decisions) for step in few.run(recorded, end)}
    last = None
    for step in every.run(recorded, end):
        last = by_time.pop(step.at, last)
        assert summary(step.decisions) == last
    assert not by_time
    assert few.evaluations <= every.evaluations


@settings(max_examples=examples(12), deadline=None)
@given(policies(), scrapes(), st.lists(st.integers(1, 30), max_size=4))
def test_a_recording_read_in_parts_gives_the_same_decisions(wanted, table, cuts):
    recorded, end = recording(table), len(table) + 8
    whole = Replay(wanted, NODES, Timing(STEP, STALE), start=START)
    parts = Replay(wanted, NODES, Timing(STEP, STALE), start=START)
    found = {s.at: summary(s.decisions) for s in whole.run(recorded, START + STEP * end)}
    for cut in sorted({min(cut, end) for cut in cuts} | {end}):
        for step in parts.run(recorded, START + STEP * cut):
            assert summary(step.decisions) == found[step.at]


@settings(max_examples=examples(40), deadline=None)
@given(policies(), scrapes(st.sampled_from([*READ, NEVER, NEVER])))
def test_recorded_reports_are_replayed_with_what_nodes_never_had(wanted, table):
    """Reports go to the live evaluator and to `plimsoll record`, whose file is read as a backtest reads it."""
    table = [{node: dict.fromkeys(METRICS, 0.0) for node in NODES}, *table]
    end = START + STEP * (len(table) + 8)
    now = START
    recorder = Recorder(lambda: now)
    for row in table:
        now += STEP
        for node, values in row.items():
            report(recorder, node, values, now)
    with tempfile.NamedTemporaryFile() as file:
        file.write(recorder.take())
        file.flush()
        request = Request(METRICS, f"{START:.0f}", f"{end:.0f}", STEP, STALE, 0.0, "node")
        dump = read_sources([[file.name]], request)
        replay = Replay(wanted, dump.nodes, Timing(STEP, STALE), start=START)
        steps = {s.at: s.decisions for part, until in dump.parts() for s in replay.run(part, until)}
        dump.close()
    live, delivered, replayed = Live(wanted, START), 0, None
    for at in sorted({*steps, *(START + STEP * tick for tick in range(len(table) + 1))}):
        while delivered < len(table) and START + STEP * (delivered + 1) <= at:
            delivered += 1
            live.wait(START + STEP * delivered)
            for node, values in table[delivered - 1].items():
                report(live.store, node, values, START + STEP * delivered)
        replayed = steps.get(at, replayed)
        assert summary(replayed) == summary(live.decide(at)), at - START
