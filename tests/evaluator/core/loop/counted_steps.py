"""Readings and policies of any number, and the work of the steps in which they are decided or shown.

Cells that numpy reads and writes, and function calls. Wall time depends on the machine's other work.
"""

import sys

import numpy as np

from evaluator.core.policy.decide import decide
from evaluator.core.policy.parse import parse
from evaluator.core.readings.store import Store
from tests.evaluator.conftest import make_rule, make_tas
from wire.codec import Delta

NODES = tuple(f"node-{number:03}" for number in range(200))
NOW = 1000.0


COMMON = [{}, {"for": "5s", "clearAfter": "5s"}, {"whenMissing": "violate"}]


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


def world(metrics, policies, rules, kind=CountedStore, **common):
    """Return readings of this many metrics, and policies with this many rules for each strategy."""
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
        parse(
            make_tas(
                f"p{number}",
                dontschedule={"rules": [make_rule(text) for text in found], **common},
                deschedule={"rules": [make_rule(text) for text in found], **common},
                labeling={
                    "rules": [make_rule(t, f"l{n % 9}=v{n}") for n, t in enumerate(found)],
                    **common,
                },
            )
        )
        for number, found in enumerate(texts)
    ]
    return store, made


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
