"""The command clean on the sandbox's API server: what is removed, what stays, and the flags of features."""

import asyncio
import os
import shutil
import sys

import pytest
import yaml

from evaluator.features.problems.plan import MANAGER
from evaluator.tools.clean.main import PROGRAM
from tests import preloaded
from tests.evaluator.conftest import ROOT, make_rule, make_tas

pytestmark = pytest.mark.features("labels", "memory", "node_actions")

TAINT = {"key": "plimsoll.io/ns.demo", "value": "violating", "effect": "NoSchedule"}
FOREIGN = {"key": "example.com/gpu", "value": "x", "effect": "NoSchedule"}
CONDITION = {
    "type": "example.com/Ill",
    "status": "True",
    "reason": "DescheduleViolated",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


@pytest.fixture
async def node(api):
    """The path of a node with a label, a taint and a condition of ours, and a label and a taint of others."""
    await api.node("node-a", taints=[FOREIGN, TAINT])
    path, head = "/api/v1/nodes/node-a", {"apiVersion": "v1", "kind": "Node"}
    own = head | {"metadata": {"name": "node-a", "labels": {"demo": "violating"}}}
    await api.apply(path, own, "plimsoll")
    await api.merge(path, {"metadata": {"labels": {"theirs": "1"}}})
    state = head | {"metadata": {"name": "node-a"}, "status": {"conditions": [CONDITION]}}
    await api.apply(f"{path}/status", state, "plimsoll")
    return path


@pytest.fixture
def flags(api, kubeconfig):
    config = f"--kubeConfig={kubeconfig(api.url)}"
    return ("-P", "-m", "evaluator", "clean", "--no-wait", config)


def conditions(found):
    return [condition["type"] for condition in found["status"]["conditions"]]


async def test_labels_taints_and_conditions_of_ours_are_removed(api, node, flags):
    status, out, err = await preloaded.run((sys.executable, *flags))
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "node-a: removed condition example.com/Ill; taint plimsoll.io/ns.demo; label demo",
        "removed something on 1 node",
    ]
    found = await api.get(node)
    assert await api.labels("node-a") == {"theirs": "1"}
    assert found["spec"]["taints"] == [FOREIGN]
    assert conditions(found) == ["Ready"]


async def test_conditions_of_problems_are_removed_and_those_of_others_stay(api, node, flags):
    """Only one manager owns a condition; `Ready` is the kubelet's, `ReadonlyFilesystem` another reporter's."""
    for manager, kind in ((MANAGER, "KernelDeadlock"), ("other", "ReadonlyFilesystem")):
        status = {"conditions": [{**CONDITION, "type": kind}]}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}}
        await api.apply(f"{node}/status", {**body, "status": status}, manager)
    _, out, err = await preloaded.run((sys.executable, *flags))
    assert err == ""
    assert "condition KernelDeadlock" in out
    assert sorted(conditions(await api.get(node))) == ["ReadonlyFilesystem", "Ready"]


async def test_invalid_taint_prefix_is_refused(node, flags):
    status, _, err = await preloaded.run((sys.executable, *flags, "--taintPrefix=example.com/"))
    assert status == 2
    assert f"{PROGRAM}: --taintPrefix: not a prefix of our own" in err


@pytest.fixture
def without_node_actions(tmp_path):
    """Run a command of an evaluator from which the feature node_actions is deleted; return its output."""
    shutil.copytree(
        ROOT / "evaluator",
        tmp_path / "evaluator",
        ignore=shutil.ignore_patterns("node_actions", "*.pyc.*"),
    )
    registry = tmp_path / "evaluator/features/registry.py"
    lines = registry.read_text().splitlines(keepends=True)
    registry.write_text("".join(one for one in lines if '"node_actions"' not in one))

    async def run(*argv):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *argv,
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        return out.decode()

    return run


async def test_clean_without_node_actions_removes_labels_only(
    api, node, flags, without_node_actions
):
    assert await without_node_actions(*flags) == (
        "node-a: removed label demo\nremoved something on 1 node\n"
    )
    found = await api.get(node)
    assert found["spec"]["taints"] == [FOREIGN, TAINT]
    assert conditions(found) == ["Ready", "example.com/Ill"]
    shown = await without_node_actions(*flags, "--help")
    assert "taint" not in shown
    assert "the annotation plimsoll.io/memory\n" in shown


async def test_backtest_without_node_actions_replays_without_taints(tmp_path, without_node_actions):
    policy = make_tas("load", dontschedule=[make_rule("load1 GreaterThan 6")])
    policy["metadata"]["annotations"] = {"plimsoll.io/actions": "label,taint"}
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(policy))
    samples = [
        f'load1{{node="a"}} {value} {60 * number}\n' for number, value in enumerate([1, 7, 1])
    ]
    (tmp_path / "dump.om").write_text("".join([*samples, "# EOF\n"]))
    command = ("-P", "-m", "evaluator", "backtest")
    out = await without_node_actions(
        *command, "-f", "policy.yaml", "--openmetrics", "dump.om", "--step=1m"
    )
    assert "would write: 0 label changes\n" in out
    assert "maxActedNodes" not in await without_node_actions(*command, "--help")
