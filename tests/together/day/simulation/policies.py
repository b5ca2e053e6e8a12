"""Random policies: every strategy and option on a few metrics, sometimes with a mistake."""

import itertools
import math

METRICS = ("heat", "load", "health", "errors", "free")
OPERATORS = ("Equals", "LessThan", "GreaterThan")
LONGEST = 8
"""Maximum seconds of `for` or `clearAfter`."""


def random_spec(rng):
    """The spec of a TASPolicy."""
    strategies = {"dontschedule": _strategy(rng, timed=0.1)}
    if rng.random() < 0.7:
        strategies["deschedule"] = _strategy(rng, timed=0.4)
    if rng.random() < 0.6:
        strategies["labeling"] = _strategy(rng, timed=0.4, labels=True)
    if rng.random() < 0.5:
        strategies["scheduleonmetric"] = {"rules": [_rule(rng)]}
    return {"strategies": strategies}


def _strategy(rng, *, timed, labels=False):
    body = {"rules": [_rule(rng) for _ in range(rng.randint(1, 3))]}
    for rule in body["rules"] if labels else ():
        rule["labels"] = [f"{rng.choice('xyz')}={rng.choice(('low', 'high', 'odd'))}"]
    if rng.random() < 0.3:
        body["logicalOperator"] = "allOf"
    for term in ("for", "clearAfter"):
        if rng.random() < timed:
            body[term] = f"{rng.randint(1, LONGEST)}s"
    if rng.random() < 0.3:
        body["whenMissing"] = "violate"
    return body


def _rule(rng):
    metric = rng.choice(METRICS)
    return {
        "metricname": metric,
        "operator": rng.choice(OPERATORS),
        "target": rng.randint(1, 8),
    }


def refusals(spec, candidates):
    """Possible answers to whether dontschedule rejects a node: {True}, {False} or both.

    `candidates(metric)` are the values that may count at that moment, None for a missing one. Durations are left to other
    checks: with them both answers are possible.
    """
    strategy = spec["strategies"]["dontschedule"]
    if "for" in strategy or "clearAfter" in strategy:
        return {True, False}
    lack = strategy.get("whenMissing") == "violate"
    join = all if strategy.get("logicalOperator") == "allOf" else any
    broken = [
        {_broken(rule, value, lack=lack) for value in candidates(rule["metricname"])}
        for rule in strategy["rules"]
    ]
    return {join(choice) for choice in itertools.product(*broken)}


def _broken(rule, value, *, lack):
    if value is None or math.isnan(value):
        return lack
    match rule["operator"]:
        case "Equals":
            return value == rule["target"]
        case "LessThan":
            return value < rule["target"]
        case _:
            return value > rule["target"]
