"""Warnings that kubectl prints for an admitted policy of which a part has no effect (deploy/crd-warnings)."""

import asyncio
import json
import re
import shutil
import subprocess

import pytest

from evaluator.core.policy.parse import declared_annotations
from evaluator.features.registry import VOCABULARY
from sandbox import manifests
from sandbox.client.client import ensure
from sandbox.client.objects import ObjectKind
from tests.cluster.plane import requires
from tests.patience import PATIENCE

FOLDER = manifests.folder() / "crd-warnings"
GROUP = "admissionregistration.k8s.io/v1"
KINDS = {
    "ValidatingAdmissionPolicy": ObjectKind("validatingadmissionpolicies", GROUP, namespaced=False),
    "ValidatingAdmissionPolicyBinding": ObjectKind(
        "validatingadmissionpolicybindings", GROUP, namespaced=False
    ),
}
RULE = {"metricname": "m", "operator": "LessThan"}
GOOD = {
    "dontschedule": {"rules": [RULE]},
    "scheduleonmetric": {"rules": [RULE]},
    "deschedule": {"rules": [RULE]},
    "labeling": {"rules": [{**RULE, "labels": ["a=b", "c_d.e=", "f=G-h"]}]},
}


@pytest.fixture
async def apply(plane):
    """The warnings of kubectl for a policy with these strategies."""
    await requires(plane, GROUP, "validatingadmissionpolicies")
    if not shutil.which("kubectl"):
        pytest.skip("no kubectl on PATH")
    objects = [obj for obj in manifests.load(FOLDER) if obj["kind"] in KINDS]
    for obj in objects:
        await ensure(plane.client, KINDS[obj["kind"]], obj)
    names = "|".join(re.escape(obj["metadata"]["name"]) for obj in objects)

    def ask(strategies, name="warned", **metadata):
        body = {
            "apiVersion": "telemetry.intel.com/v1alpha1",
            "kind": "TASPolicy",
            "metadata": {"name": name, "namespace": "default", **metadata},
            "spec": {"strategies": strategies},
        }
        command = [
            "kubectl",
            f"--kubeconfig={plane.kubeconfig}",
            "create",
            "--validate=ignore",
            "--dry-run=server",
        ]
        done = subprocess.run(
            [*command, "-f", "-"], input=json.dumps(body), capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return [re.split(f"(?:{names})': ", line)[-1] for line in done.stderr.splitlines()]

    async with asyncio.timeout(PATIENCE):  # the API server takes a moment to apply new rules
        while len(ask({}, labels={"plimsoll.io/x": "1"})) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    return ask


async def test_omitted_parts_are_admitted_with_a_warning(apply):
    assert apply({**GOOD, "reschedule": {"rules": []}}) == [
        "the strategies are dontschedule, scheduleonmetric, deschedule and labeling; "
        "left out: reschedule"
    ]
    (too_long,) = apply(GOOD, name="a" * 64)
    assert "which is too long" in too_long
    labels = ["fine=1", "bad", "a b=c", "x=y=z", f"{'k' * 64}=v"]
    (bad,) = apply({"labeling": {"rules": [{**RULE, "labels": labels}]}})
    assert bad.endswith(f"left out: bad, a b=c, x=y=z, {'k' * 64}=v")
    assert apply({"labeling": {"rules": [RULE]}}) == [
        "a rule of labeling names no labels, so it sets none"
    ]
    ranking = [{**RULE, "operator": "Equals"}, RULE]
    assert len(apply({"scheduleonmetric": {"rules": ranking}})) == 2
    assert apply({}) == ["the policy has no strategies, so it does not restrict its pods"]


async def test_per_pod_rules_warn_about_durations(apply):
    """The warnings list all strategies that the evaluator knows."""
    for metric in sorted(VOCABULARY.derived):
        rules = [{**RULE, "metricname": metric, "for": "30s"}]
        (said,) = apply({"dontschedule": {"rules": rules}})
        assert said.startswith("for and clearAfter have no effect")
        assert said.endswith("in dontschedule")
    risk = {**RULE, "metricname": "plimsoll_risk"}
    (said,) = apply({"scheduleonmetric": {"rules": [risk], "clearAfter": "1m"}})
    assert said.endswith("in scheduleonmetric")
    assert apply({"deschedule": {"rules": [{**risk, "for": "30s"}]}}) == []
    assert apply({"dontschedule": {"rules": [{**RULE, "for": "30s"}]}}) == []
    assert apply({"dontschedule": {"rules": [risk]}}) == []


async def test_valid_policy_causes_no_warning(apply):
    assert apply(GOOD) == []
    assert apply({"scheduleonmetric": {"rules": []}, "labeling": {"rules": []}}) == []


async def test_unknown_keys_of_our_domain_warn_with_the_known_ones(apply):
    unknown = {"plimsoll.io/enforcment": "observe", "plimsoll.io/Max-Nodes": "1", "x.io/y": "z"}
    (said,) = apply(GOOD, annotations=unknown)
    assert "plimsoll.io/enforcment" in said
    assert "plimsoll.io/Max-Nodes" in said
    assert "x.io" not in said
    assert "plimsoll.io/enforcement, " in said
    known = dict.fromkeys(declared_annotations(VOCABULARY), "1")
    assert apply(GOOD, annotations=known, labels={"app": "x"}) == []
    (said,) = apply(GOOD, labels={"plimsoll.io/enforcement": "observe"})
    assert said == "Plimsoll reads no labels of policies, only annotations: plimsoll.io/enforcement"
    many = {f"plimsoll.io/key-{number}": "x" for number in range(1000)}
    assert len(apply(GOOD, annotations=many)) == 1
