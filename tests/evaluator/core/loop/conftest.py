"""A policy on health_metric, and a decision loop that has it."""

import pytest

from evaluator.core.policy import parse
from tests.evaluator.core.loop.loop_world import DecisionLoopWorld


@pytest.fixture
def demo(tas, rule):
    def make(**metadata):
        return parse.parse(
            tas(
                "demo-policy",
                dontschedule=[rule("health_metric Equals 1"), rule("health_metric Equals 2")],
                scheduleonmetric=[rule("health_metric LessThan 0")],
                deschedule=[rule("health_metric Equals 2")],
                **metadata,
            )
        )

    return make


@pytest.fixture
def world(demo):
    made = DecisionLoopWorld()
    made.know(demo())
    made.decider.evaluate()
    return made
