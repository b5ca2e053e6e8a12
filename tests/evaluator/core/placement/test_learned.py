"""What pods were seen to add: medians over readings before and after bindings."""

import math
import random

import pytest

from evaluator.core.model.names import PolicyKey
from evaluator.core.placement.learned import LEAST_TRIALS, SETTLED, Learned, NodeReading

KEY, OTHER = PolicyKey("ns", "demo"), PolicyKey("ns", "other")
WINDOW = 5.0
AFTER = WINDOW + SETTLED


class Fleet:
    """Readings of one metric on many nodes."""

    def __init__(self):
        self.learned, self.now, self.values = Learned(), 0.0, {}

    def bind(self, node, key=KEY, requested=100.0):
        self.learned.bound(key, node, "m", requested, self.reading("m", node), self.now)

    def reading(self, _metric, node):
        value = self.values.get(node, 0.0)
        return None if math.isnan(value) else NodeReading(value, self.now)

    def settle(self, seconds=AFTER):
        self.now += seconds
        for _ in self.learned.read(lambda _metric: WINDOW, self.reading, self.now):
            pass

    @property
    def added(self):
        return self.learned.added_per_pod(KEY, "m")


@pytest.fixture
def fleet():
    return Fleet()


def test_the_median_is_close_although_other_pods_change_their_use(fleet):
    """Each pod adds 0.8; the rest of the node changes by three times as much in the meantime."""
    noise = random.Random(1)
    for number in range(60):
        node = f"n{number % 20}"
        fleet.bind(node)
        fleet.values[node] = fleet.values.get(node, 0.0) + 0.8 + noise.gauss(0.0, 2.4)
        fleet.settle()
    assert fleet.added.per_pod == pytest.approx(0.8, abs=0.5)


def test_nothing_is_known_before_enough_trials(fleet):
    for number in range(LEAST_TRIALS):
        assert fleet.added is None
        fleet.bind(f"n{number}")
        fleet.values[f"n{number}"] = 2.0
        fleet.settle()
    assert (fleet.added.per_pod, fleet.added.per_request) == (2.0, 0.02)


def test_a_burst_on_one_node_is_one_trial_of_all_its_pods(fleet):
    for number in range(LEAST_TRIALS):
        for _ in range(4):
            fleet.bind(f"n{number}", requested=0.0)
        fleet.values[f"n{number}"] = 8.0
        fleet.settle()
    assert fleet.added.per_pod == 2.0
    assert math.isnan(fleet.added.per_request)
    assert fleet.added.trials == LEAST_TRIALS


@pytest.mark.parametrize("spoil", ["another policy", "a pod left", "no reading", "too early"])
def test_trials_that_say_nothing_are_dropped(fleet, spoil):
    for number in range(3 * LEAST_TRIALS):
        node = f"n{number}"
        fleet.bind(node)
        match spoil:
            case "another policy":
                fleet.bind(node, OTHER)
            case "a pod left":
                fleet.learned.left(node, ["m"])
            case "no reading":
                fleet.values[node] = math.nan
        fleet.settle(AFTER / 2 if spoil == "too early" else AFTER)
        if spoil == "too early":
            fleet.learned.left(node, ["m"])
        fleet.settle(10 * AFTER)
    assert fleet.learned.all() == {}


def test_what_was_learned_goes_with_its_policy(fleet):
    for number in range(LEAST_TRIALS):
        fleet.bind(f"n{number}")
        fleet.settle()
    assert fleet.added is not None
    version = fleet.learned.version
    fleet.learned.keep({KEY: frozenset({"m"})})
    assert fleet.added is not None
    fleet.learned.keep({KEY: frozenset()})
    assert fleet.added is None
    assert fleet.learned.version > version


def test_an_increase_beyond_all_numbers_is_dropped(fleet):
    """Values of a node may be as large as a double; the difference of two is not."""
    for number in range(4 * LEAST_TRIALS):
        fleet.values[f"n{number}"] = -1.7e308
        fleet.bind(f"n{number}")
        fleet.values[f"n{number}"] = 1.7e308 if number % 4 else -1.6e308
        fleet.settle()
    assert math.isfinite(fleet.added.per_pod)
