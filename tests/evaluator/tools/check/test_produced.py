"""plimsoll check on metrics that nothing produces: scores, conditions of nodes, and problems of their logs."""

import json

import pytest
import yaml

from evaluator.tools.check import main, produced
from sandbox import manifests


def policy(*metrics, name="demo", **annotations):
    """A manifest whose dontschedule names metrics."""
    rules = [{"metricname": name, "operator": "Equals", "target": 1} for name in metrics or ("m",)]
    keys = {f"plimsoll.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {
        "apiVersion": "telemetry.intel.com/v1alpha1",
        "kind": "TASPolicy",
        "metadata": {"name": name, "namespace": "ns", "annotations": keys},
        "spec": {"strategies": {"dontschedule": {"rules": rules}}},
    }


def monitor(*types):
    """A configuration of node-problem-detector."""
    conditions = [{"type": kind, "reason": "Fine", "message": "fine"} for kind in types]
    return {"plugin": "kmsg", "source": "own", "conditions": conditions, "rules": []}


@pytest.fixture
def errors(tmp_path, capsys):
    """The errors in objects, each in a file."""

    def run(*objects):
        for number, obj in enumerate(objects):
            (tmp_path / f"{number}.yaml").write_text(yaml.safe_dump(obj))
        status = main.main([str(tmp_path), "--output=json"])
        findings = json.loads(capsys.readouterr().out)["findings"]
        found = [error for finding in findings for error in finding["errors"]]
        assert status == bool(found)
        return found

    return run


@pytest.mark.parametrize(
    ("metric", "hint"),
    [
        ("node_condition_", "it names no type of a condition"),
        ("node_condition_ready", "similar: node_condition_Ready"),
        ("node_condition_Redy", "similar: node_condition_Ready"),
        ("node_condition_memory_pressure", "similar: node_condition_MemoryPressure"),
        ("problem_", "it names no type of a condition"),
        ("problem_kernel_deadlock", "similar: problem_KernelDeadlock"),
        ("problem_KernelDeadlok", "similar: problem_KernelDeadlock"),
        ("node_problem_ReadOnlyFilesystem", "similar: node_problem_ReadonlyFilesystem"),
        ("problem_NoSuchThing", "give the files of your monitors too"),
    ],
)
def test_name_that_nothing_produces_is_an_error(errors, metric, hint):
    (error,) = errors(policy(metric))
    assert error.startswith(f"nothing produces {metric}: ")
    assert hint in error


def test_peers_of_a_name_that_nothing_produces_are_an_error(errors):
    (error,) = errors(policy("problem_KernelDeadlok:peer_ratio"))
    assert error.startswith("nothing produces problem_KernelDeadlok: ")


@pytest.mark.parametrize(
    "metric",
    [
        "node_condition_Ready",
        "node_condition_GpuUnhealthy",
        "node_condition_DNSProblem",
        "node_condition_IOPressure",
        "problem_KernelDeadlock",
        "node_problem_XfsShutdown",
        "problem_counter",
        "problem_monitor_up",
        "my_problem_of_mine",
    ],
)
def test_name_that_something_may_produce_is_no_error(errors, metric):
    assert errors(policy(metric)) == []


def test_given_monitors_produce_problems_and_conditions(errors):
    used = policy("problem_DiskBad", "node_condition_redy")
    assert len(errors(used)) == 2
    assert errors(used, monitor("DiskBad", "redy")) == []
    data = {"own.json": json.dumps(monitor("DiskBad", "redy")), "other": "no JSON", "n": "[3]"}
    assert errors(used, {"apiVersion": "v1", "kind": "ConfigMap", "data": data}) == []
    (error,) = errors(policy("problem_DiskBda"), monitor("DiskBad"))
    assert "similar: problem_DiskBad" in error


def test_given_recording_rules_produce_problems(errors):
    rules = {"groups": [{"name": "g", "rules": [{"record": "node_problem_Own", "expr": "1"}]}]}
    assert errors(policy("problem_Own"), rules) == []


@pytest.mark.features("node_actions")
def test_condition_of_plimsoll_needs_a_policy_that_sets_it(errors):
    used = policy("node_condition_plimsoll_io_Calm", "node_condition_example_com_Hot")
    (error,) = errors(used)
    assert error == (
        "nothing produces node_condition_plimsoll_io_Calm: no given policy sets a condition of this type "
        "(plimsoll.io/actions: condition)"
    )
    assert errors(used, policy(name="calm", actions="condition")) == []
    named = policy(name="x", actions="condition", condition_type="plimsoll.io/Calm")
    assert errors(used, named) == []
    (error,) = errors(used, policy(name="calms", actions="condition"))
    assert error.endswith("similar: node_condition_plimsoll_io_Calms")


def test_known_types_are_those_of_the_shipped_monitors():
    (shipped,) = [
        obj
        for obj in manifests.load(manifests.folder() / "components" / "kernel-log")
        if obj["kind"] == "ConfigMap" and "kernel.json" in obj.get("data", {})
    ]
    types = {one["type"] for one in json.loads(shipped["data"]["kernel.json"])["conditions"]}
    assert types <= produced.OF_MONITORS
