"""Any double that one node reports is shown, in valid JSON, and changes nothing that is shown of other nodes."""

import json
import math

import msgspec
from hypothesis import given

from evaluator.features.pages.explain.policy import explain
from plimsoll.floats import not_finite
from plimsoll.steps import finished
from tests.evaluator.core.readings.hostile import CASES, MALLORY, NOW, OTHERS, with_and_without


def strictly(data):
    """As read by a JSON parser without NaN and Infinity."""

    def no(constant):
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(msgspec.json.encode(data), parse_constant=no)


@given(*CASES)
def test_values_of_one_node_never_change_what_is_shown_of_another(texts, readings, spoilt):
    policy, *both = with_and_without(texts, readings, spoilt)
    page, without = (
        finished(explain(decisions, policy.key, store, now=NOW)) for decisions, store in both
    )
    shown = strictly(dict(page.nodes))
    expected = strictly(dict(without.nodes))
    assert [shown[node] for node in OTHERS] == [expected[node] for node in OTHERS]
    strictly(page.head)
    readings = shown[MALLORY]["readings"]
    for metric, value in spoilt.items():
        if metric in readings and not math.isfinite(value):
            assert readings[metric]["value"] == not_finite(value), "JSON has no such number"
