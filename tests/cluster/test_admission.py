"""The TASPolicy CRD on the sandbox and a real API server: admits what TAS admitted and rejects invalid policies."""

import copy
import json

import pytest

from sandbox.client.client import ApiError
from sandbox.client.objects import NAMESPACES, POLICIES

HEALTH = "health_metric"


def strategies(**named):
    """`dontschedule=["m Equals 1"]`; a pair (rules, more) adds fields beside the rules, a dictionary is used unchanged."""
    return {"strategies": {name: _strategy(given) for name, given in named.items()}}


def _strategy(given):
    if isinstance(given, dict):
        return given
    rules, more = given if isinstance(given, tuple) else (given, {})
    return {"rules": [*map(_rule, rules)], **more}


def _rule(text):
    if isinstance(text, dict):
        return text
    words, _, labels = text.partition(": ")
    metric, operator, *target = words.split()
    body = {"metricname": metric, "operator": operator}
    if target:
        body["target"] = int(target[0])
    return body | ({"labels": labels.split()} if labels else {})


# Policies from the documentation of Telemetry Aware Scheduling.
EXAMPLES = {
    "health": strategies(
        deschedule=[f"{HEALTH} Equals 2"],
        dontschedule=[f"{HEALTH} Equals 1", f"{HEALTH} Equals 2"],
        scheduleonmetric=[f"{HEALTH} LessThan"],
    ),
    "power": strategies(
        dontschedule=["package_power_avg GreaterThan 60"],
        scheduleonmetric=["package_power_avg LessThan"],
    ),
    "traits": strategies(dontschedule=["10GB1Mpps Equals -1"]),
    "all-four": strategies(
        deschedule=["node_metric Equals -1"],
        dontschedule=["node_metric LessThan 10"],
        scheduleonmetric=["node_metric GreaterThan"],
        labeling=["node_metric GreaterThan 100: label1=foo label2=bar"],
    ),
    "many-rules": strategies(
        deschedule=(["temperature GreaterThan 80", "freeRAM LessThan 200"], {"logicalOperator": "allOf"}),
        dontschedule=(["temperature GreaterThan 80", "freeRAM LessThan 200"], {"logicalOperator": "anyOf"}),
        scheduleonmetric=["freeRAM LessThan"],
    ),
    "labels": strategies(
        labeling=["metric_card0 GreaterThan 100: card0=true", "metric_card1 GreaterThan 200: card1=true"]
    ),
    "same-label": strategies(
        labeling=["m_1 GreaterThan 100: foo=1", "m_2 GreaterThan 100: foo=2"]
    ),
}  # fmt: skip

# Policies that its CRD admitted although they had no effect.
ODDITIES = {
    "no-spec": None,
    "no-strategies": strategies(),
    "no-rules": strategies(dontschedule=[]),
    "unknown-strategy": strategies(reschedule=["m Equals 1"]),
    "policy-name": strategies(dontschedule=(["m Equals 1"], {"policyName": "another"})),
    "labels-without-value": strategies(labeling=["m Equals 1: novalue a=b=c not/a/label=x ="]),
    "labeling-without-labels": strategies(labeling=["m Equals 1"]),
    "labels-elsewhere": strategies(dontschedule=["m Equals 1: a=b"]),
    "clashing-labels": strategies(labeling=["m Equals 1: a=b", "m LessThan 1: a=c"]),
    "ranking-of-two": strategies(scheduleonmetric=["m LessThan 5", "n Equals 7"]),
    "extreme-targets": strategies(
        dontschedule=["m Equals 9223372036854775807", "m Equals -9223372036854775808", "m Equals 0"]
    ),
    "many": strategies(**{f"s{n}": [f"m{m} Equals {m}" for m in range(70)] for n in range(16)}),
}


@pytest.fixture
async def admit(plane):
    """Send a spec in a dry run; return what the API server would store."""
    namespace = "default"
    try:
        await plane.client.get(NAMESPACES, namespace)
    except ApiError:
        await plane.client.create(
            NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        )

    async def ask(spec, name="admission"):
        body = {
            "apiVersion": POLICIES.api_version,
            "kind": "TASPolicy",
            "metadata": {"name": name, "namespace": namespace},
        }
        if spec is not None:
            body["spec"] = copy.deepcopy(spec)
        stored = await plane.client.create(POLICIES, body)
        await plane.client.delete(POLICIES, name, namespace)
        return stored.get("spec")

    return ask


async def test_policies_documented_by_tas_are_admitted_unchanged(admit):
    for name, spec in EXAMPLES.items():
        assert await admit(spec) == spec, name


async def test_policies_accepted_by_tas_are_admitted_unchanged(admit):
    for name, spec in ODDITIES.items():
        assert await admit(spec) == spec, name
    long = "a" * 253  # invalid as a label, which matters to two strategies only
    assert await admit(EXAMPLES["traits"], name=long) == EXAMPLES["traits"]


TOO_LARGE = {
    "strategies": strategies(**{f"s{n}": ["m Equals 1"] for n in range(17)}),
    r"strategies\.dontschedule\.rules": strategies(dontschedule=["m Equals 1"] * 501),
    r"labeling\.rules\[0\]\.labels": strategies(
        labeling=[f"m Equals 1: {' '.join(f'a{n}=b' for n in range(201))}"]
    ),
    r"labeling\.rules\[0\]\.labels\[0\]": strategies(labeling=[f"m Equals 1: a={'b' * 255}"]),
}
"""Specs over the size limits of the CRD, by the field that the rejection names. TAS's CRD had no limits."""


async def test_specs_over_the_limits_of_the_crd_are_rejected_with_their_path(admit):
    for place, spec in TOO_LARGE.items():
        with pytest.raises(ApiError, match=rf"{place}: Too (?:many|long)") as refused:
            await admit(spec)
        assert refused.value.status == 422, place


async def test_targets_are_numbers_or_quantities(admit):
    for target in (
        0,
        1,
        -1,
        0.5,
        -0.125,
        1e-9,
        "1500m",
        "0.5",
        "-2",
        "2Gi",
        "1e3",
        "1E",
        ".5",
        "+7k",
    ):
        body = strategies(
            dontschedule=[{"metricname": "m", "operator": "Equals", "target": target}]
        )
        assert await admit(body) == body, target  # fmt: skip


async def test_durations_and_when_missing_are_kept(admit):
    timings = {"for": "30s", "clearAfter": "1m30s", "whenMissing": "violate"}
    rule = {"metricname": "m", "operator": "Equals", "target": 1, **timings}
    body = strategies(dontschedule=([rule], timings))
    assert await admit(body) == body
    for duration in ("0", "0s", "250ms", "1.5h", "1h2m3s4ms"):
        body = strategies(dontschedule=(["m Equals 1"], {"for": duration}))
        assert await admit(body) == body, duration


REFUSED = [
    ({"target": "much"}, "target"),
    ({"target": ""}, "target"),
    ({"target": "1 Gi"}, "target"),
    ({"target": True}, "target"),
    ({"target": []}, "target"),
    ({"target": [1]}, "target"),
    ({"target": {}}, "target"),
    ({"target": {"a": 1}}, "target"),
    ({"for": "30"}, r"for.*30"),
    ({"for": "-1s"}, r"for"),
    ({"for": 30}, r"for.*must be of type"),
    ({"clearAfter": "soon"}, r"clearAfter.*soon"),
    ({"clearAfter": "1d"}, r"clearAfter"),
    ({"for": "1s" * 40}, r"for"),
    ({"whenMissing": "panic"}, r'whenMissing.*"ignore", "violate"'),
    ({"operator": "Above"}, r'operator.*"Equals", "LessThan", "GreaterThan"'),
    ({"metricname": "a/b"}, r"metricname"),
    ({"metricname": ""}, r"metricname"),
    ({"labels": "a=b"}, r"labels.*array"),
]


async def test_invalid_rule_is_rejected_with_its_path(admit):
    good = {"metricname": "m", "operator": "Equals", "target": 1}
    for bad, says in REFUSED:
        with pytest.raises(ApiError, match=says) as refused:
            await admit(strategies(dontschedule=[good, {**good, **bad}]))
        assert refused.value.status == 422, json.dumps(bad)
        assert "dontschedule.rules[1]" in refused.value.message, json.dumps(bad)


async def test_invalid_field_beside_the_rules_is_rejected_with_its_path(admit):
    for bad in (
        {"for": "x"},
        {"clearAfter": 5},
        {"whenMissing": "no"},
        {"logicalOperator": "oneOf"},
    ):
        with pytest.raises(ApiError, match=f"dontschedule.{next(iter(bad))}") as refused:
            await admit(strategies(dontschedule=(["m Equals 1"], bad)))
        assert refused.value.status == 422, bad
    with pytest.raises(ApiError, match=r"dontschedule\.rules"):
        await admit(strategies(dontschedule={}))
