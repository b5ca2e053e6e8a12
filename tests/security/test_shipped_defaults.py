"""What the manifests protect without any choice: who reaches the agents' metrics, and what the evaluator's token can do."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from evaluator.config import Settings

DEPLOY = Path(__file__).parents[2] / "deploy"
MONITORING = {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on PATH")


def built(folder):
    command = ["kubectl", "kustomize", str(DEPLOY / folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {
        (one["kind"], one["metadata"]["name"]): one
        for one in yaml.safe_load_all(done.stdout)
        if one
    }


def test_only_prometheus_reaches_the_agents_metrics_by_default():
    objects = built("core")
    policy = objects["NetworkPolicy", "plimsoll-agent"]["spec"]
    pod = objects["DaemonSet", "plimsoll-agent"]["spec"]["template"]
    assert policy["policyTypes"] == ["Ingress"]
    assert policy["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert not pod["spec"].get("hostNetwork"), "NetworkPolicies do not apply to the host's network"
    (rule,) = policy["ingress"]
    (container,) = pod["spec"]["containers"]
    assert [port["port"] for port in rule["ports"]] == [one["name"] for one in container["ports"]]
    namespace, prometheus = rule["from"]
    assert namespace == {"namespaceSelector": MONITORING}
    assert prometheus["podSelector"] == {"matchLabels": {"app.kubernetes.io/name": "prometheus"}}


def test_only_prometheus_reaches_the_evaluators_metrics_by_default():
    objects = built("core")
    rules = objects["NetworkPolicy", "plimsoll-evaluator"]["spec"]["ingress"]
    (rule,) = [rule for rule in rules if {"port": "ops"} in rule["ports"]]
    agents = objects["NetworkPolicy", "plimsoll-agent"]["spec"]["ingress"][0]
    assert rule == {"ports": [{"port": "ops"}], "from": agents["from"]}


def test_pages_are_open_to_no_network_by_default():
    pod = built("core")["Deployment", "plimsoll-evaluator"]["spec"]["template"]["spec"]
    assert "pagesFrom" not in str(pod["containers"][0]["args"])
    assert not Settings().pages_from


def test_patches_of_the_documentation_open_pages_to_a_network(tmp_path):
    text = (DEPLOY.parent / "docs/kubectl-plugin.md").read_text()
    block = re.search(r"```yaml\n(patches:.*?)```", text, re.DOTALL)[1]
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    overlay = tmp_path / "deploy" / "overlay"
    overlay.mkdir()
    (overlay / "kustomization.yaml").write_text(f"resources: [../core]\n{block}")
    objects = built(overlay)
    rule = objects["NetworkPolicy", "plimsoll-evaluator"]["spec"]["ingress"][2]
    assert (rule["ports"], rule["from"][-1]) == (
        [{"port": "ops"}],
        {"ipBlock": {"cidr": "10.0.0.7/32"}},
    )
    pod = objects["Deployment", "plimsoll-evaluator"]["spec"]["template"]["spec"]
    assert "--pagesFrom=10.0.0.7/32" in pod["containers"][0]["args"]


def test_all_of_plimsoll_includes_the_guard():
    """deploy/core does not: it also runs before Kubernetes 1.30."""
    guards = {key for key in built(".") if key[0].startswith("ValidatingAdmissionPolicy")}
    assert ("ValidatingAdmissionPolicy", "plimsoll-evaluator") in guards
    assert ("ValidatingAdmissionPolicyBinding", "plimsoll-evaluator") in guards
    assert not guards & built("core").keys()
