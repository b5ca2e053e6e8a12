"""No step between two yields to the event loop grows with the number of metrics and policies.

The tests count work: the cells that numpy reads and writes, and function calls. Wall time depends on the machine's other work.
"""

import itertools
import sys
import weakref

import numpy as np
import pytest

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.loop.followers import PolicyGauges, log_changes, release
from evaluator.core.loop.loop import DecisionLoop
from evaluator.core.loop.subscription import Subscriptions
from evaluator.core.metrics import SLICE, Metrics
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node import Node, NodeMeta
from evaluator.core.model.pod import Pod, PodMeta, PodSpec
from evaluator.core.policy.decide import Decisions, decide, deciding
from evaluator.core.readings.store import Store
from evaluator.features.pages.explain import metrics as explain_metrics
from evaluator.features.pages.explain import nodes as explain_nodes
from evaluator.features.pages.explain import overview
from evaluator.features.pages.explain.pod import explain_pod
from evaluator.features.pages.explain.pod_summary import PodContext
from evaluator.features.pages.explain.policy import explain
from evaluator.features.pages.explain.states import states_of
from evaluator.features.pages.sources import ViolationTimes
from evaluator.features.requeue import plan
from plimsoll.steps import finished
from wire.codec import Delta

NODES = tuple(f"node-{number:03}" for number in range(200))
NOW = 1000.0


class Counted(np.ndarray):
    """An array that counts the cells accessed through it and its results."""

    cells = 0

    @classmethod
    def note(cls, *arrays):
        cls.cells += sum(a.size for a in arrays if isinstance(a, np.ndarray))

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **more):
        Counted.note(*inputs)
        plain = [_plain(x) for x in inputs]
        if out is not None:
            more["out"] = tuple(map(_plain, out))
        more = {key: _plain(value) for key, value in more.items()}  # `where`
        return _counting(getattr(ufunc, method)(*plain, **more))

    def __array_function__(self, function, types, args, kwargs):
        Counted.note(*_arrays(args))
        return _counting(function(*_deep(args), **{k: _plain(v) for k, v in kwargs.items()}))

    def __getitem__(self, key):
        found = _plain(self)[_deep(key) if isinstance(key, tuple) else _plain(key)]
        Counted.note(found)
        return _counting(found)

    def take(self, *args, **kwargs):
        return _counting(_noted(_plain(self).take(*args, **kwargs)))

    def copy(self, *args, **kwargs):
        return _counting(_noted(_plain(self).copy(*args, **kwargs)))

    def tobytes(self, *args):
        Counted.note(self)
        return _plain(self).tobytes(*args)


def _noted(array):
    Counted.note(array)
    return array


def _plain(value):
    return value.view(np.ndarray) if isinstance(value, Counted) else value


def _deep(values):
    return type(values)(_deep(v) if isinstance(v, tuple | list) else _plain(v) for v in values)


def _arrays(values):
    for value in values:
        if isinstance(value, tuple | list):
            yield from _arrays(value)
        else:
            yield value


def _counting(found):
    if isinstance(found, tuple):
        return tuple(map(_counting, found))
    return found.view(Counted) if isinstance(found, np.ndarray) and found.size > 1 else found


class CountedStore(Store):
    """A table whose columns count accesses and creations."""

    def column(self, metric, nodes, now):
        column = super().column(metric, nodes, now)
        parts = {
            name: part.view(Counted)
            for name, part in column._asdict().items()
            if isinstance(part, np.ndarray)
        }
        Counted.note(*parts.values())
        return column._replace(**parts)


@pytest.fixture
def world(parsed, rule):
    """Nodes, metrics, and policies with this many rules per strategy."""

    def make(metrics, policies, rules, kind=CountedStore, **common):
        names = [f"m{number}" for number in range(metrics)]
        store = kind(stale_after=30.0, started=0.0)
        store.subscribe(names)
        rng = np.random.default_rng(1)
        for node in NODES:
            values = rng.integers(0, 100, metrics).astype(float).tolist()
            store.report(node, Delta(dict(zip(names, values, strict=True))), NOW)
        texts = [
            [f"m{(p + r) % metrics} GreaterThan {r % 100}" for r in range(rules)]
            for p in range(policies)
        ]
        made = [
            parsed(
                f"p{number}",
                dontschedule={"rules": [rule(text) for text in found], **common},
                deschedule={"rules": [rule(text) for text in found], **common},
                labeling={
                    "rules": [rule(t, [f"l{n % 9}=v{n}"]) for n, t in enumerate(found)],
                    **common,
                },
            )
            for number, found in enumerate(texts)
        ]
        return store, made

    return make


def heaviest(steps):
    """Return the cells accessed by the largest step."""
    most = 0
    while True:
        Counted.cells = 0
        try:
            next(steps)
        except StopIteration as done:
            return max(most, Counted.cells), done.value
        most = max(most, Counted.cells)


def most_calls(steps):
    """Return the function calls of the largest step."""
    calls = most = 0

    def note(_frame, event, _argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    while True:
        calls = 0
        sys.setprofile(note)
        try:
            next(steps)
        except StopIteration as done:
            return max(most, calls), done.value
        finally:
            sys.setprofile(None)
        most = max(most, calls)


def deciding_costs(store, policies):
    """Of a first decision, and of the next one after every tenth node has reported."""
    first, before = heaviest(deciding(policies, NODES, store, now=NOW))
    for node in NODES[::10]:
        store.report(node, Delta(dict.fromkeys(store.metrics, 55.0)), NOW + 1)
    second, _ = heaviest(deciding(policies, NODES, store, now=NOW + 1, before=before))
    return max(first, second)


COMMON = [{}, {"for": "5s", "clearAfter": "5s"}, {"whenMissing": "violate"}]


@pytest.mark.parametrize("common", COMMON)
def test_no_step_of_a_decision_grows_with_metrics_and_policies(world, common):
    few = deciding_costs(*world(metrics=20, policies=2, rules=10, **common))
    many = deciding_costs(*world(metrics=200, policies=20, rules=10, **common))
    assert few > len(NODES)  # something was counted
    assert many <= 1.5 * few


@pytest.mark.parametrize("common", COMMON)
def test_step_makes_few_calls_per_rule_of_one_strategy(world, common):
    """A step may pass over the table of nodes and rules; many Python calls per rule are a step of their own."""
    rules = 100
    store, policies = world(metrics=100, policies=2, rules=rules, kind=Store, **common)
    first, before = most_calls(deciding(policies, NODES, store, now=NOW))
    for node in NODES[::2]:
        store.report(node, Delta(dict.fromkeys(store.metrics, 55.0)), NOW + 1)
    second, _ = most_calls(deciding(policies, NODES, store, now=NOW + 1, before=before))
    assert max(first, second) <= 35 * rules


def test_replaced_decisions_are_freed_policy_by_policy(world):
    store, policies = world(metrics=100, policies=10, rules=10, kind=Store)
    decisions = decide(policies, NODES, store, now=NOW)
    reasons = [weakref.ref(one.dontschedule) for one in decisions.policies.values()]
    columns = [weakref.ref(one) for one in decisions.table.prepared.values()]
    held = [decisions]
    del decisions
    left = (
        tuple(sum(ref() is not None for ref in refs) for refs in (reasons, columns))
        for _ in release(held)
    )
    alive = [(len(policies), len(columns)), *left]
    steps = [(a - c, b - d) for (a, b), (c, d) in itertools.pairwise(alive)]
    assert alive[-1] == (0, 0)
    assert all(one <= 1 and other <= 20 for one, other in steps)


def test_no_step_of_an_explanation_grows_with_metrics_and_policies(world):
    def costs(metrics, policies):
        store, made = world(metrics, policies, rules=10)
        decisions = finished(deciding(made, NODES, store, now=NOW))
        found, _ = heaviest(explain(decisions, PolicyKey("ns", "p0"), store, now=NOW))
        return found

    few, many = costs(20, 2), costs(200, 20)
    assert few > len(NODES)
    assert many <= 1.5 * few


def test_no_step_of_a_page_grows_with_metrics_and_policies(world):
    def costs(metrics, policies):
        store, made = world(metrics, policies, rules=10, **COMMON[1])
        decisions = finished(deciding(made, NODES, store, now=NOW))
        decision = decisions.policies[PolicyKey("ns", "p0")]
        codes = finished(states_of(decision, decisions.table))
        keys = list(decisions.policies)
        pages = (
            overview.policies(decisions, keys, store, now=NOW),
            explain_nodes.worst(decisions),
            explain_nodes.rows(decisions, codes, np.arange(20), {}),
            explain_nodes.node(NODES[0], decisions, store, now=NOW),
            explain_metrics.counts_by_state(decisions),
            ViolationTimes().update(decisions, NOW),
        )
        return [heaviest(steps)[0] for steps in pages]

    few, many = costs(20, 2), costs(200, 20)
    assert max(few) > len(NODES)  # something was counted
    assert all(more <= 1.5 * less for less, more in zip(few, many, strict=True))


def test_no_step_of_a_pods_or_nodes_explanation_grows_with_metrics_and_policies(world):
    def costs(metrics, policies):
        store, made = world(metrics, policies, rules=10)
        decisions = finished(deciding(made, NODES, store, now=NOW))
        decision = decisions.policies[PolicyKey("ns", "p0")]
        meta = PodMeta(name="web", namespace="ns", labels={"telemetry-policy": "p0"})
        pod = Pod(meta, PodSpec(requests_extender=True))
        context = PodContext(decisions, {name: Node(NodeMeta(name)) for name in NODES}, decision)
        of_pod, _ = heaviest(explain_pod(pod, context, store, now=NOW))
        of_nodes, _ = heaviest(explain_nodes.nodes(decisions))
        return max(of_pod, of_nodes)

    few, many = costs(20, 2), costs(200, 20)
    assert many <= 1.5 * few


def test_explanation_builds_reasons_only_for_shown_nodes(world):
    store, policies = world(metrics=10, policies=2, rules=10, kind=Store)
    decisions = decide(policies, NODES, store, now=NOW)
    page = finished(explain(decisions, PolicyKey("ns", "p0"), store, now=NOW))
    found = {node: entry["dontschedule"] for node, entry in page.nodes}
    assert not with_reasons(decisions)
    assert found.keys() == {*NODES}
    violators = decisions.policies[PolicyKey("ns", "p0")].dontschedule
    assert {node: text for node, text in found.items() if text} == violators


def halves(store, policies):
    """Decisions before and after half of the nodes reported other values, which changes the violations of every policy."""
    before = decide(policies, NODES, store, now=NOW)
    for node in NODES[::2]:
        store.report(node, Delta(dict.fromkeys(store.metrics, -1.0)), NOW + 1)
    return before, decide(policies, NODES, store, now=NOW + 1, before=before)


def with_reasons(*decisions):
    """The strategies whose reasons were built for all violating nodes, which takes milliseconds for thousands."""
    return [
        (key, name)
        for found in decisions
        for key, decision in found.policies.items()
        for name, reasons in decision.violations.items()
        if "by_name" in vars(reasons)
    ]


def test_log_builds_reasons_only_for_nodes_it_names(world, log_lines):
    read = log_lines("logfmt")
    before, after = halves(*world(metrics=10, policies=3, rules=10, kind=Store))
    for _ in (*log_changes(Decisions(), before), *log_changes(before, after)):
        pass
    lines = read()
    assert any("node-001 violating p0: m" in line for line in lines)
    assert any("node-000 no longer violating p2" in line for line in lines)
    assert not with_reasons(before, after)
    dict(after.policies[PolicyKey("ns", "p0")].dontschedule)
    assert with_reasons(before, after)  # it is visible


def test_readmitted_nodes_are_found_without_all_reasons(world):
    before, after = halves(*world(metrics=10, policies=3, rules=10, kind=Store))
    found = plan.newly_allowed(before, after)
    openings = plan.remember({}, found, now=1.0, memory=300.0)
    assert not with_reasons(before, after)
    for key, nodes in found.items():
        was, now = before.policies[key].dontschedule, after.policies[key].dontschedule
        assert {*nodes.names} == was.keys() - now.keys() != set()
    assert openings.keys() == found.keys() == after.policies.keys()


def test_readmitting_makes_few_calls_for_each_policy(world):
    before, after = halves(*world(metrics=10, policies=5, rules=10, kind=Store))

    def once():
        more = plan.newly_allowed(before, after)
        plan.remember({}, more, now=1.0, memory=300.0)
        yield

    calls, _ = most_calls(once())
    assert calls <= 60 * len(before.policies) < len(NODES) * len(before.policies)


def test_gauges_of_policies_are_collected_in_slices(world):
    store, policies = world(metrics=100, policies=10, rules=50, kind=Store)
    metrics = Metrics()
    for _ in PolicyGauges(metrics).show(decide(policies, NODES, store, now=NOW), NOW):
        pass
    sizes = [len(family.samples) for family in metrics.registry.collect()]
    assert max(sizes) == SLICE
    assert sum(sizes) > 500


def test_each_step_subscribes_to_a_few_new_metrics(world):
    """Space for a metric is cleared for all nodes: for 1,000 metrics and 5,000 nodes this takes 100 ms."""

    class NotingStore(Store):
        steps = ()

        def subscribe(self, metrics):
            before = self.metrics
            super().subscribe(metrics)
            self.steps = (*self.steps, len(self.metrics - before))

    _, policies = world(metrics=400, policies=4, rules=100)
    store, cluster = NotingStore(stale_after=30.0, started=0.0), ClusterCache()
    cluster.policies.replace(policies)
    loop = DecisionLoop(cluster, store, Subscriptions(), Metrics())
    loop.evaluate()
    named = {metric for policy in policies for metric in policy.metrics}
    assert store.metrics == named
    assert sum(store.steps) == len(named) > 50
    assert max(store.steps) <= 10
    cluster.policies.replace(policies[:1])
    loop.evaluate()
    assert store.metrics == policies[0].metrics
