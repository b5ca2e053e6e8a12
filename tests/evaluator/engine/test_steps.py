"""No step between two turns of the event loop grows with the number of metrics and policies.

The tests count work: the cells that numpy reads and writes, and function calls. Wall time depends on the machine's other work.
"""

import sys

import numpy as np
import pytest

from evaluator.model.names import PolicyKey
from evaluator.model.steps import finished
from evaluator.plans.explain import explain
from evaluator.policy.decide import deciding
from evaluator.readings.store import Store
from wire.codec import Delta

NODES = tuple(f"node-{number:03}" for number in range(200))
NOW = 1000.0


class Counted(np.ndarray):
    """An array that counts the cells which are touched through it, and makes arrays that count too."""

    cells = 0

    @classmethod
    def note(cls, *arrays):
        cls.cells += sum(a.size for a in arrays if isinstance(a, np.ndarray))

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **more):
        Counted.note(*inputs)
        plain = [_plain(x) for x in inputs]
        if out is not None:
            more["out"] = tuple(map(_plain, out))
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
    """Whose columns count what is done with them, and what it takes to make them."""

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
    """Nodes, so many metrics, and policies of so many rules in each strategy."""

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
    """The cells of the step that touches most."""
    most = 0
    while True:
        Counted.cells = 0
        try:
            next(steps)
        except StopIteration as done:
            return max(most, Counted.cells), done.value
        most = max(most, Counted.cells)


def most_calls(steps):
    """The function calls of the step that makes most: what is done for each rule in Python."""
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
def test_a_step_of_a_decision_makes_few_calls_for_each_rule_of_one_strategy(world, common):
    """It may pass over the table of nodes and rules; what takes many calls for each rule is a step of its own."""
    rules = 100
    store, policies = world(metrics=100, policies=2, rules=rules, kind=Store, **common)
    first, before = most_calls(deciding(policies, NODES, store, now=NOW))
    for node in NODES[::2]:
        store.report(node, Delta(dict.fromkeys(store.metrics, 55.0)), NOW + 1)
    second, _ = most_calls(deciding(policies, NODES, store, now=NOW + 1, before=before))
    assert max(first, second) <= 35 * rules


def test_no_step_of_an_explanation_grows_with_metrics_and_policies(world):
    def costs(metrics, policies):
        store, made = world(metrics, policies, rules=10)
        decisions = finished(deciding(made, NODES, store, now=NOW))
        found, _ = heaviest(explain(decisions, PolicyKey("ns", "p0"), store, now=NOW))
        return found

    few, many = costs(20, 2), costs(200, 20)
    assert few > len(NODES)
    assert many <= 1.5 * few
