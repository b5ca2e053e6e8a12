"""The types of conditions in a policy's status that describe its rules."""

from collections.abc import Mapping

from evaluator.core.policy.types import StrategyName

VALID = "Valid"

TYPES: Mapping[StrategyName, str] = {
    StrategyName.DONTSCHEDULE: "DontScheduleViolated",
    StrategyName.SCHEDULEONMETRIC: "ScheduleOnMetricReady",
    StrategyName.DESCHEDULE: "DescheduleViolated",
    StrategyName.LABELING: "LabelingViolated",
}
"""Condition type of each strategy."""

AWAITED = "ReadingsAwaited"
"""The reason of a condition while first readings are awaited."""
