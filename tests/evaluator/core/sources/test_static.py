"""Readings from a table of quantities."""

import pytest

from evaluator.core.readings.store import Store
from evaluator.core.sources import static


def test_quantities_and_numbers_fill_the_store():
    store = Store(stale_after=30.0, started=0.0)
    store.subscribe(["cpu", "mem", "disk"])
    static.fill(store, {"a": {"cpu": "1500m", "mem": "1Ki"}, "b": {"cpu": 2}}, at=5.0)
    assert store.reading("cpu", "a") == (1, 1.5, 5.0)
    assert store.reading("mem", "a") == (1, 1024.0, 5.0)
    assert store.reading("cpu", "b") == (1, 2.0, 5.0)
    assert store.reading("disk", "a").samples == 0
    assert store.reading("disk", "a").at == 5.0


def test_invalid_quantity_is_rejected():
    store = Store(stale_after=30.0, started=0.0)
    store.subscribe(["cpu"])
    with pytest.raises(ValueError, match="not a quantity"):
        static.fill(store, {"a": {"cpu": "much"}}, at=5.0)
