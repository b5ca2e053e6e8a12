"""Readings from a table: for tests, benchmarks, and to try a policy without agents."""

from collections.abc import Mapping

from evaluator.core.readings.store import Store
from plimsoll import quantity
from wire.codec import Delta


def fill(store: Store, readings: Mapping[str, Mapping[str, str | float]], *, at: float) -> None:
    """Put node → metric → value (a number, or a quantity such as `1500m`) into a store; absent metrics have no reading.

    Raises ValueError for an invalid quantity.
    """
    for node, values in readings.items():
        parsed = {
            metric: quantity.parse(value) if isinstance(value, str) else float(value)
            for metric, value in values.items()
        }
        store.report(node, Delta(parsed, store.metrics - parsed.keys()), at)
