"""plimsoll check on Pods and workloads beside policies."""

import io
import json
import sys

import pytest
import yaml

from evaluator.tools.check import main

LIMIT = {"limits": {"telemetry/scheduling": "1"}}
KINDS = {
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "ReplicaSet": "apps/v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
    "Pod": "v1",
}
NO_REQUEST = "policy demo has no effect on where this pod is placed, since the pod does not request telemetry/scheduling"


def policy(name="demo", namespace="ns", strategy="dontschedule"):
    rules = [{"metricname": "m", "operator": "GreaterThan", "target": 5}]
    return {
        "apiVersion": "telemetry.intel.com/v1alpha1",
        "kind": "TASPolicy",
        "metadata": {"name": name, "namespace": namespace} if namespace else {"name": name},
        "spec": {"strategies": {strategy: {"rules": rules}}},
    }


def workload(kind="Deployment", *, label="demo", own=None, resources=LIMIT, namespace="ns"):
    pod = {
        "metadata": {"labels": {"app": "web"} | ({"telemetry-policy": label} if label else {})},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]},
    }
    meta = {"name": "web", **({"namespace": namespace} if namespace else {})}
    if own:
        meta["labels"] = {"telemetry-policy": own}
    spec = {"template": pod}
    if kind == "CronJob":
        spec = {"jobTemplate": {"spec": spec}}
    body = (
        {**pod, "metadata": meta | pod["metadata"]}
        if kind == "Pod"
        else {"metadata": meta, "spec": spec}
    )
    return {"apiVersion": KINDS[kind], "kind": kind, **body}


@pytest.fixture
def check(tmp_path, capsys):
    """Check objects; return the exit status and the JSON report."""

    def run(*objects, flags=()):
        path = tmp_path / "all.yaml"
        path.write_text(yaml.safe_dump_all(objects))
        status = main.main([str(path), "--output=json", *flags])
        return status, json.loads(capsys.readouterr().out)

    return run


@pytest.fixture
def warned(check):
    """The warnings about the last object."""

    def run(*objects):
        status, report = check(*objects)
        assert (status, report["errors"]) == (0, 0), report
        return report["findings"][-1]["warnings"]

    return run


@pytest.mark.parametrize("kind", KINDS)
def test_pods_without_the_request_are_warned_about(warned, kind):
    assert warned(policy(), workload(kind)) == []
    (warning,) = warned(policy(), workload(kind, resources={}))
    assert warning.startswith(NO_REQUEST)
    assert warning.endswith('add `telemetry/scheduling: "1"` to resources.limits of a container')


def test_order_of_objects_makes_no_difference(check):
    _, report = check(workload(label="demoo"), policy())
    (warning,) = report["findings"][0]["warnings"]
    assert "policy demoo does not exist in namespace ns" in warning
    assert warning.endswith("such as telemetry-policy: demo")


def test_policy_of_another_namespace_does_not_apply(warned):
    (warning,) = warned(policy(namespace="other"), workload())
    assert "only in another one" in warning


def test_manifest_without_a_namespace_matches_any(warned):
    assert warned(policy(namespace=""), workload()) == []
    assert warned(policy(), workload(namespace="")) == []


def test_policy_that_was_not_given_is_assumed_to_exist(warned):
    assert warned(workload()) == []
    assert warned(workload(resources=None))[0].startswith(NO_REQUEST)
    assert warned(policy(namespace="unrelated", name="x"), workload()) == []


def test_policy_without_scheduling_strategies_needs_no_request(warned):
    assert warned(policy(strategy="deschedule"), workload(resources={})) == []


def test_label_on_the_workload_instead_of_its_pods_is_warned_about(warned):
    (warning,) = warned(policy(), workload(label="", own="demo", resources={}))
    assert "and not in spec.template.metadata.labels" in warning
    assert warned(policy(), workload(own="demo")) == []


def test_request_without_a_label_is_warned_about(warned):
    (warning,) = warned(policy(), workload(label=""))
    assert "have no label telemetry-policy" in warning


def test_workloads_without_a_policy_are_skipped(check):
    _, report = check(policy(), workload(label="", resources={}))
    assert (report["policies"], report["workloads"]) == (1, 0)


def test_unreadable_pod_template_is_an_error(check):
    bad = workload()
    bad["spec"]["template"]["spec"]["containers"] = "web"
    status, report = check(policy(), bad)
    assert status == 1
    (error,) = report["findings"][-1]["errors"]
    assert error.startswith("spec.template: Expected `array | null`, got `str`")
    bad["spec"]["template"] = ["x"]
    assert check(policy(), bad)[0] == 1
    del bad["spec"]
    assert check(policy(), bad)[0] == 0  # the API server says what is required


def test_strict_fails_on_warnings(check):
    assert check(policy(), workload(resources={}))[0] == 0
    assert check(policy(), workload(resources={}), flags=["--strict"])[0] == 1
    assert check(policy(), workload(), flags=["--strict"])[0] == 0


def test_policy_and_pod_may_come_from_different_inputs(tmp_path, capsys, monkeypatch):
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(policy()))
    listed = {"apiVersion": "v1", "kind": "List", "items": [workload("Pod", resources={})]}
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(listed)))
    assert main.main(["--strict", str(tmp_path), "-"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "standard input: Pod ns/web" in lines
    assert "  its pods use policy demo" in lines
    assert lines[-1] == "1 policy, 1 workload, 0 errors, 1 warning"


def test_json_report_names_objects(check):
    _, report = check(policy(), workload())
    assert {key: report[key] for key in ("policies", "workloads", "errors", "warnings")} == {
        "policies": 1,
        "workloads": 1,
        "errors": 0,
        "warnings": 0,
    }
    demo, web = report["findings"]
    assert (demo["kind"], demo["namespace"], demo["name"]) == ("TASPolicy", "ns", "demo")
    assert demo["meanings"][1] == "  1. Matches while m is above 5."
    assert (web["kind"], web["name"], web["warnings"]) == ("Deployment", "web", [])


def test_message_without_a_namespace_is_a_sentence(warned):
    (warning,) = warned(policy(namespace=""), workload(namespace="", label="dmo"))
    assert warning == (
        "policy dmo does not exist in the pod's namespace: create it, or correct the pod's label telemetry-policy, such as "
        "telemetry-policy: demo"
    )
