"""The commands of docs/upgrade.md and docs/uninstall.md do what the pages say, on a real API server."""

import asyncio
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import yaml

from evaluator.core.kube.client import Kube
from evaluator.core.model.node_labels import FIELD_MANAGER

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"<!-- tested: tests/deploy/test_lifecycle.py -->\n *```sh\n(.*?)```", re.DOTALL)
POLICY = {
    "apiVersion": "telemetry.intel.com/v1alpha1",
    "kind": "TASPolicy",
    "metadata": {"name": "mine", "namespace": "default"},
    "spec": {"strategies": {"deschedule": {"rules": [{"metricname": "m", "operator": "Equals", "target": 1}]}}},
}  # fmt: skip
RELEASED = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "plimsoll-evaluator", "namespace": "plimsoll"},
    "spec": {"holderIdentity": "", "leaseDurationSeconds": 1},
}
LABELLED = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a", "labels": {"mine": "violating"}}}  # fmt: skip

pytestmark = pytest.mark.e2e


def blocks(name):
    return [textwrap.dedent(one) for one in BLOCK.findall((ROOT / "docs" / name).read_text())]


@pytest.fixture(scope="module")
def shell(control_plane, tmp_path_factory):
    """Run commands as a user in a folder with deploy/; kubectl validates on the server."""
    folder = tmp_path_factory.mktemp("clone")
    (folder / "deploy").symlink_to(ROOT / "deploy")
    programs = folder / "bin"
    programs.mkdir()
    (programs / "plimsoll").write_text(f'#!/bin/sh\nexec {sys.executable} -P -m plimsoll "$@"\n')
    (programs / "plimsoll").chmod(0o755)
    environment = {
        **os.environ,
        "KUBECONFIG": str(control_plane.kubeconfig),
        "PATH": f"{programs}:{os.environ['PATH']}",
    }

    def run(text, given=None):
        command = ["bash", "-euo", "pipefail", "-c", text]
        done = subprocess.run(command, cwd=folder, env=environment, input=given, capture_output=True, text=True)  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="module")
def installed(shell):
    """deploy/core, a policy, a node that the evaluator labelled, and what an older version left."""
    shell("kubectl apply --server-side --validate=ignore -k deploy/core")
    shell("kubectl wait --for=condition=Established crd --all --timeout=60s")
    shell("kubectl apply --validate=ignore -f -", yaml.safe_dump(POLICY))
    node = json.loads(json.dumps(LABELLED))
    del node["metadata"]["labels"]
    shell("kubectl create --validate=ignore -f -", yaml.safe_dump(node))
    label(shell)
    shell("kubectl label node node-a user=kept")
    shell("kubectl create --validate=ignore -f -", yaml.safe_dump(RELEASED))
    shell("kubectl -n plimsoll create configmap plimsoll-rules-0000000000")
    shell("kubectl create clusterrole plimsoll-old --verb=get --resource=pods")
    for what in ("-n plimsoll configmap/plimsoll-rules-0000000000", "clusterrole/plimsoll-old"):
        shell(f"kubectl label {what} app.kubernetes.io/part-of=plimsoll")
    return shell


def label(shell):
    """Label a node as the evaluator does."""
    manager = f"--field-manager={FIELD_MANAGER}"
    shell(f"kubectl apply --server-side --validate=ignore {manager} -f -", yaml.safe_dump(LABELLED))


def test_upgrade_prunes_what_the_manifests_no_longer_have(installed):
    (prune,) = blocks("upgrade.md")
    printed = installed(prune.replace("kustomize deploy ", "kustomize deploy/core "))
    gone = {line.partition(" deleted")[0] for line in printed.splitlines() if "deleted" in line}
    assert len(gone) == 2
    assert "configmap/plimsoll-rules-0000000000" in printed
    assert "plimsoll-old" in printed
    left = installed("kubectl -n plimsoll get configmaps -l app.kubernetes.io/part-of=plimsoll -o name")  # fmt: skip
    assert left.count("plimsoll-rules-") == 1


def test_documented_rights_suffice_for_clean(installed, control_plane):
    """An account with these rights, and no others, finds nothing that it may not do."""
    text = (ROOT / "docs/uninstall.md").read_text().partition("<!-- rights of clean -->")[2]
    for row in re.findall(r"\| (cluster|namespace) \| `(\S+)` \| (.+) \|", text):
        where, resource, verbs = row
        scope = "-n plimsoll" if where == "namespace" else ""
        kind = "role" if scope else "clusterrole"
        name = f"cleaner-{re.sub('[./]', '-', resource)}"
        given = f"--verb={verbs.replace(' ', '')} --resource={resource}"
        installed(f"kubectl create {scope} {kind} {name} {given}")
        installed(f"kubectl create {scope} {kind}binding {name} --{kind}={name} --serviceaccount=default:cleaner")  # fmt: skip
    installed("kubectl -n default create serviceaccount cleaner")
    config = yaml.safe_load(control_plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": installed("kubectl -n default create token cleaner").strip()}  # fmt: skip
    installed("cat > cleaner.yaml", yaml.safe_dump(config))
    asyncio.run(write_condition(control_plane.kubeconfig))
    status = json.dumps({"status": {"compliance": "Violated", "violatingNodes": 1}})
    patch = (
        f"kubectl -n default patch taspolicy mine --subresource=status --type=merge -p '{status}'"
    )
    installed(patch)
    printed = installed("plimsoll clean --kubeConfig=cleaner.yaml")
    assert "\npolicy default/mine: removed status\n" in printed
    mine = json.loads(installed("kubectl -n default get taspolicy mine -o json"))
    assert not mine.get("status")
    assert printed.startswith("node-a: removed condition plimsoll.io/Ill; label mine\n")


async def write_condition(kubeconfig):
    """Write a node condition as the evaluator does."""
    kube = await Kube.connect(str(kubeconfig))
    node = await kube.list_node("node-a")
    made = {"type": "plimsoll.io/Ill", "status": "True", "reason": "DescheduleViolated"}
    await kube.apply_node_conditions("node-a", node.metadata.uid, [made])
    await kube.close()


def test_uninstall_cleans_nodes_and_removes_policies_only_by_choice(installed):
    clean, remove, policies = blocks("uninstall.md")
    label(installed)
    installed(clean)
    labels = json.loads(installed("kubectl get node node-a -o json"))["metadata"]["labels"]
    assert "mine" not in labels
    assert labels["user"] == "kept"
    installed(remove)
    assert "mine" in installed("kubectl get taspolicies -o name")
    for kind in ("clusterroles", "clusterrolebindings", "priorityclasses"):
        assert "plimsoll" not in installed(f"kubectl get {kind} -o name")
    installed(policies)
    assert "telemetry.intel.com" not in installed("kubectl get crd -o name")
