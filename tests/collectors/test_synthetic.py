import pytest

from collectors.interface.host import Host
from collectors.synthetic import Options, Synthetic, value


def make(node: str, now: float, **options: object) -> Synthetic:
    return Synthetic(Host(name=node), Options(**options), clock=lambda: now)


def test_equal_times_give_equal_values(values) -> None:
    first = values(make("node-a", 1000.0).collect())
    assert first == values(make("node-a", 1000.0).collect())
    assert len(first) == 10
    assert first != values(make("node-a", 1010.0).collect())
    assert first != values(make("node-b", 1000.0).collect())


def test_names_can_be_chosen(values) -> None:
    options = {"synthetic_metrics": 1, "synthetic_names": ("health_metric", "health_metric")}
    assert set(values(make("n", 0, **options).collect())) == {"node_synthetic_0", "health_metric"}


def test_values_sweep_the_range_in_a_period() -> None:
    sweep = [value("n", "m", second, period=60) for second in range(60)]
    assert min(sweep) >= 0
    assert max(sweep) <= 100
    assert max(sweep) - min(sweep) > 90
    assert value("n", "m", 7, period=60) == pytest.approx(value("n", "m", 67, period=60), abs=0.02)


def test_values_are_constant_without_a_period() -> None:
    assert value("n", "m", 1, period=0) == value("n", "m", 99, period=0)
