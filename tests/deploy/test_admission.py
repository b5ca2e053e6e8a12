"""The API server admits every manifest: a server-side dry run on the sandbox and, if available, a real API server."""

import asyncio
import shutil
import subprocess

import pytest
import pytest_asyncio
import yaml

from sandbox.apiserver.server import ApiServer
from sandbox.endpoints import kubeconfig
from tests.deploy.conftest import kustomizations

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

FOREIGN = {
    "certificates.cert-manager.io": ("v1", "Certificate"),
    "issuers.cert-manager.io": ("v1", "Issuer"),
    "podmonitors.monitoring.coreos.com": ("v1", "PodMonitor"),
    "prometheusrules.monitoring.coreos.com": ("v1", "PrometheusRule"),
}
"""Resources of other projects, whose CRDs are not shipped here: only the kinds are declared."""

NOT_IN_THE_SANDBOX = {
    "ClusterRole",
    "ClusterRoleBinding",
    "DaemonSet",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "NetworkPolicy",
    "Role",
    "RoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}
"""Kinds that the sandbox lacks: it has no RBAC, and starts agents itself."""


def definition(name, version, kind):
    plural, _, group = name.partition(".")
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, "singular": kind.lower()},
            "versions": [{**served, "schema": {"openAPIV3Schema": anything}}],
        },
    }


@pytest_asyncio.fixture(params=["sandbox", "real"], scope="module", loop_scope="module")
async def kubectl(request, tmp_path_factory):
    """Run kubectl against an API server with the namespaces and kinds that the manifests require."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not on PATH")
    config, server = tmp_path_factory.mktemp("admission") / "kubeconfig", None
    if request.param == "sandbox":
        server = ApiServer()
        config.write_text(kubeconfig(await server.start()))
    else:
        config = request.getfixturevalue("control_plane").kubeconfig

    async def run(*arguments, given=""):
        program = await asyncio.create_subprocess_exec(
            "kubectl",
            f"--kubeconfig={config}",
            *arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, err = await program.communicate(given.encode())
        return program.returncode, out.decode(), err.decode()

    run.server = server
    yield run
    if server:
        await server.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def prepared(kubectl, built):
    """The same once namespaces and kinds exist."""
    first = [
        obj for obj in built(*kustomizations()) if obj["kind"] in {"Namespace", "PriorityClass"}
    ]
    first.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}})
    kinds = built("crd") + [definition(name, *what) for name, what in FOREIGN.items()]
    for objects in (first, kinds):
        done = await kubectl(
            "apply",
            "--server-side",
            "--validate=ignore",
            "-f",
            "-",
            given=yaml.safe_dump_all(objects),
        )
        assert done[0] == 0, done[2]
    for obj in kinds:
        name = obj["metadata"]["name"]
        done = await kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=30s")
        assert done[0] == 0, done[2]
    return kubectl


async def test_every_manifest_is_admitted(prepared, built):
    """Server-side, so that an unknown field is an error and not silently dropped."""
    objects = [
        obj
        for obj in built(*kustomizations())
        if prepared.server is None or obj["kind"] not in NOT_IN_THE_SANDBOX
    ]
    code, out, err = await prepared(
        "apply",
        "--server-side",
        "--dry-run=server",
        "--validate=strict",
        "-f",
        "-",
        given=yaml.safe_dump_all(objects),
    )
    assert code == 0, err
    assert len(out.splitlines()) == len(objects)
    assert not err, err
