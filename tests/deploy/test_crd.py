"""Size limits of the CRD: absurd policies are rejected, valid ones are stored."""

from pathlib import Path

import pytest
import yaml
from jsonschema import Draft7Validator

from evaluator.core.policy.parse import MOST_LABELS, MOST_RULES

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def spec():
    crd = yaml.safe_load((ROOT / "deploy/crd/taspolicy.yaml").read_text())
    (version,) = crd["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]["properties"]["spec"]


def policy(rules=1, labels=1, strategies=(), label="card=0"):
    rule = {"metricname": "m", "operator": "Equals", "target": 1, "labels": [label] * labels}
    named = {"labeling": {"rules": [rule] * rules}, **{name: {"rules": []} for name in strategies}}
    return {"strategies": named}


@pytest.mark.parametrize(
    "found",
    [
        policy(),
        policy(rules=2 * MOST_RULES),
        policy(labels=2 * MOST_LABELS),
        policy(label="n" * 63 + "=" + "v" * 63),
        policy(strategies=("dontschedule", "deschedule", "scheduleonmetric", "unknown")),
    ],
    ids=["small", "many rules", "many labels", "a long label", "all strategies"],
)
def test_valid_policy_is_admitted(spec, found):
    Draft7Validator(spec).validate(found)


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (policy(rules=10_000), "too long"),
        (policy(labels=20_000), "too long"),
        (policy(label="x" * 100_000), "too long"),
        (policy(strategies=map(str, range(10_000))), "too many properties"),
    ],
    ids=["rules", "labels", "a label", "strategies"],
)
def test_policy_of_absurd_size_is_rejected(spec, found, says):
    (error,) = Draft7Validator(spec).iter_errors(found)
    assert says in error.message


def test_policies_have_a_short_name_for_kubectl():
    crd = yaml.safe_load((ROOT / "deploy/crd/taspolicy.yaml").read_text())
    assert crd["spec"]["names"]["shortNames"] == ["tas"]
