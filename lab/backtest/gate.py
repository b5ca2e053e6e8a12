"""Conditions of `--fail-if`: whether a policy stays within a limit, exceeds it, or has too little data to tell."""

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plimsoll.text import one_line, shown

FINE, OVER, UNKNOWN = 0, 1, 2
"""Exit statuses."""
MOST_MISSING = 0.5
"""Share of missing readings from which a result says nothing."""
_CONDITION = re.compile(r"\s*([a-z-]+)\s*(>=|>)\s*(\d+(?:\.\d+)?)\s*(%|/h|)\s*", re.ASCII)
_COMPARE = {">": operator.gt, ">=": operator.ge}


@dataclass(frozen=True, slots=True)
class _Figure:
    """A figure of the report, by unit of the limit."""

    value: Callable[[Mapping[str, Any]], float]
    about: str
    """Follows the number: a unit or, after a blank, what is counted."""


_FIGURES: Mapping[tuple[str, str], _Figure] = {
    ("violating", ""): _Figure(lambda p: p["nodesAtOnce"]["max"], "nodes in violation at once"),
    ("violating", "%"): _Figure(
        lambda p: 100 * (p["nodesAtOnce"]["maxShare"] or 0), "% of nodes in violation at once"
    ),
    ("flaps", "/h"): _Figure(
        lambda p: p["flaps"]["worstNodeHour"], "changes of one node within an hour"
    ),
    ("no-node", ""): _Figure(lambda p: p["noNodeMinutes"], "minutes without any node left"),
    ("trips", ""): _Figure(
        lambda p: p["limit"]["trips"] if p["limit"] else 0, "times over the limit of nodes"
    ),
    ("node-hours", ""): _Figure(lambda p: p["nodeHours"], "node-hours in violation"),
    ("missing", "%"): _Figure(lambda p: 100 * (p["missingShare"] or 0), "% of readings missing"),
}


@dataclass(frozen=True, slots=True)
class FailIf:
    """One condition, such as `violating>20%`."""

    text: str
    figure: _Figure
    exceeds: Callable[[float, float], bool]
    limit: float

    def verdict(self, policy: Mapping[str, Any]) -> str:
        """Return why a policy of the report fails; empty if it does not."""
        value = self.figure.value(policy)
        if not self.exceeds(value, self.limit):
            return ""
        return f"{self.text}: {value:g} {self.figure.about}"


def condition(text: str) -> FailIf:
    """Parse a condition. Raises ValueError."""
    match = _CONDITION.fullmatch(text)
    figure = _FIGURES.get((match[1], match[4])) if match else None
    if match is None or figure is None:
        known = ", ".join(f"{name}>N{unit}" for name, unit in _FIGURES)
        raise ValueError(f"not a condition: {shown(text)} (one of {known})")
    return FailIf(text.strip(), figure, _COMPARE[match[2]], float(match[3]))


def too_little_data(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield why the report cannot show that a policy is fine."""
    if not report["nodes"] or not report["samples"]:
        yield "the recording has no sample of any metric of the policies"
        return
    for warning in report.get("warnings", ()):
        yield f"warning of the source: {one_line(warning)}"
    for policy in report["policies"]:
        name = f"{policy['namespace']}/{policy['name']}"
        if policy["metricsWithoutData"]:
            yield f"{name}: no node has {', '.join(policy['metricsWithoutData'])}"
        elif policy["missingShare"] is None or policy["missingShare"] > MOST_MISSING:
            share = "all" if policy["missingShare"] is None else f"{policy['missingShare']:.0%}"
            yield f"{name}: {share} of its readings are missing"


def verdict(report: Mapping[str, Any], conditions: Sequence[FailIf]) -> tuple[int, list[str]]:
    """Return the exit status and the reasons. Violations of a policy without data say nothing of the nodes."""
    over = [
        f"{policy['namespace']}/{policy['name']}: {why}"
        for policy in report["policies"]
        if report["samples"] and not policy["metricsWithoutData"]
        for fail_if in conditions
        if (why := fail_if.verdict(policy))
    ]
    if over:
        return OVER, over
    unknown = [*too_little_data(report)]
    return (UNKNOWN, unknown) if unknown else (FINE, [])
