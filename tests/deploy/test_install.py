"""The commands of docs/install.md and docs/custom-metrics.md work as pasted, in their order, on a real API server."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"<!-- tested: tests/deploy/test_install.py -->\n```sh\n(.*?)```", re.DOTALL)
NOT_HERE = ("kubectl wait", "plimsoll check-apiservice")
"""Commands that need a running evaluator behind the Service: tests/cluster/custom_metrics has one."""

pytestmark = pytest.mark.e2e


def blocks(page):
    return BLOCK.findall((ROOT / page).read_text())


@pytest.fixture(scope="module")
def shell(control_plane, made, tmp_path_factory):
    """Run commands in a checkout of deploy/ with certificates made by hand.

    kubectl does not validate: some builds of kube-apiserver serve no OpenAPI v2.
    """
    deploy = tmp_path_factory.mktemp("clone") / "deploy"
    shutil.copytree(ROOT / "deploy", deploy)
    by_hand = deploy / "certificates" / "by-hand"
    shutil.copytree(made, by_hand, dirs_exist_ok=True)

    def run(text, folder=deploy.parent):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text.replace("kubectl apply", "kubectl apply --validate=ignore")],
            cwd=folder,
            env={"KUBECONFIG": str(control_plane.kubeconfig), "PATH": "/usr/local/bin:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_installation_and_custom_metrics_work_as_pasted(shell):
    """An object that two steps create, or a CA that comes after waiting for it, stops the reader."""
    (secrets,) = blocks("deploy/certificates/by-hand/README.md")
    by_hand = Path(shell("pwd").strip()) / "deploy" / "certificates" / "by-hand"
    shell(secrets, by_hand)
    (install,) = blocks("docs/install.md")
    shell(install)
    assert "secret/plimsoll-extender-tls" in shell("kubectl -n plimsoll get secrets -o name")
    assert "plimsoll-evaluator" in shell("kubectl -n plimsoll get deployments -o name")
    without_cert_manager = r"sed -i '/^  - ..\/certificates$/d' {}/kustomization.yaml"
    shell(without_cert_manager.format("deploy/custom-metrics-api"))
    register, authority, available = blocks("docs/custom-metrics.md")
    for text in (register, authority, available):
        shell("\n".join(line for line in text.splitlines() if not line.startswith(NOT_HERE)))
    assert "kubectl wait --for=condition=Available" in available
    expected = shell(
        "kubectl -n plimsoll get secret plimsoll-extender-tls -o jsonpath='{.data.ca\\.crt}'"
    )
    for version in ("v1beta1", "v1beta2"):
        path = "{.spec.caBundle}"
        stored = shell(
            f"kubectl get apiservice {version}.custom.metrics.k8s.io -o jsonpath='{path}'"
        )
        assert stored == expected != ""
