"""A real control plane starts one agent on each node, from the chart's two DaemonSets."""

import json
import os
import shutil
import subprocess
import time
from collections import Counter

import pytest

from sandbox.envtest import ControlPlane, NoControlPlaneError, find
from tests.patience import PATIENCE

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH"),
]
GPU, LINUX = {"nvidia.com/gpu.present": "true"}, {"kubernetes.io/os": "linux"}
NODES = {
    "plain-1": LINUX,
    "plain-2": LINUX | {"nvidia.com/gpu.present": "false"},
    "gpu-1": LINUX | GPU,
    "gpu-2": LINUX | GPU | {"pool": "a"},
    "windows": {"kubernetes.io/os": "windows"},
}
WANTED = {
    "plain-1": "plimsoll-agent",
    "plain-2": "plimsoll-agent",
    "gpu-1": "plimsoll-agent-gpu",
    "gpu-2": "plimsoll-agent-gpu",
}


@pytest.fixture
def plane(tmp_path):
    try:
        with ControlPlane(find(os.environ), tmp_path) as running:
            yield running
    except NoControlPlaneError as error:
        pytest.skip(str(error))


@pytest.fixture
def kubectl(plane):
    def run(*arguments, given=""):
        command = ["kubectl", f"--kubeconfig={plane.kubeconfig}", *arguments]
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def node(name, labels):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def agents(kubectl):
    """The agents' pods that are not being deleted: name, node that it is for, and DaemonSet."""
    for pod in json.loads(kubectl("-n", "plimsoll", "get", "pods", "-o", "json"))["items"]:
        affinity = pod["spec"]["affinity"]["nodeAffinity"]
        required = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        (name,) = {
            name for term in required for one in term["matchFields"] for name in one["values"]
        }
        (owner,) = [one["name"] for one in pod["metadata"]["ownerReferences"]]
        if "deletionTimestamp" not in pod["metadata"]:
            yield pod["metadata"]["name"], name, owner


def bind(kubectl, pod, name):
    """What kube-scheduler does."""
    target = {"apiVersion": "v1", "kind": "Node", "name": name}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
    path = f"/api/v1/namespaces/plimsoll/pods/{pod}/binding"
    kubectl("create", "--raw", path, "-f", "-", given=json.dumps(binding))


def test_each_node_gets_one_agent_and_a_new_label_moves_it(plane, kubectl, render):
    objects = render({"agent": {"gpu": {"enabled": True}}})
    kinds = {"DaemonSet", "PriorityClass", "ServiceAccount"}
    wanted = [body for (kind, name), body in objects.items() if kind in kinds and "agent" in name]
    items = [*wanted, *(node(name, labels) for name, labels in NODES.items())]
    runtime = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": "nvidia"}  # fmt: skip
    listed = {"apiVersion": "v1", "kind": "List", "items": [*items, runtime]}
    kubectl("create", "namespace", "plimsoll")
    kubectl("create", "-f", "-", given=json.dumps(listed))

    def settle(expected):
        deadline = time.monotonic() + PATIENCE
        while (found := Counter((name, owner) for _, name, owner in agents(kubectl))) != Counter(
            expected.items()
        ):
            assert time.monotonic() < deadline, found
            time.sleep(0.2)

    with plane.controllers("daemonset-controller"):
        settle(WANTED)
        for pod, name, _ in agents(kubectl):
            bind(kubectl, pod, name)
        kubectl("label", "node", "plain-2", "nvidia.com/gpu.present=true", "--overwrite")
        settle(WANTED | {"plain-2": "plimsoll-agent-gpu"})
