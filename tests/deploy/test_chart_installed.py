"""An API server accepts the objects of the Helm chart, upgrades its CRD, and runs its certificates job."""

import base64
import json
import os
import shutil
import subprocess
import sys
from urllib.parse import urlsplit

import pytest
import yaml

from release import chart as generator
from tests.deploy.chart_values import BUNDLE, COMPONENTS, EVERYTHING, EXISTING, JOB, ROOT

helm = pytest.importorskip("helm_python", reason="helm-python-sdk has no wheel here")
pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH")


@pytest.fixture(scope="module")
def administrator(control_plane):
    """Run kubectl and return its output."""

    def kubectl(*given, text=None):
        environment = {**os.environ, "KUBECONFIG": str(control_plane.kubeconfig)}
        done = subprocess.run(["kubectl", *given], env=environment, input=text, capture_output=True, text=True)  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return kubectl


def collection(body):
    """The path where an object is created."""
    version, name = body["apiVersion"], body["kind"].lower()
    plural = (
        f"{name[:-1]}ies" if name.endswith("y") else f"{name}{'es' if name[-1] == 's' else 's'}"
    )
    space = body["metadata"].get("namespace")
    group = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{group}{f'/namespaces/{space}' if space else ''}/{plural}"


def test_api_server_accepts_all_objects(administrator, render):
    """Strictly: an unknown field is an error."""
    values = {
        **JOB,
        **BUNDLE,
        "components": {generator._camel(name): True for name in COMPONENTS},
        "gangs": {"policy": True, "webhook": True},
        "policyAdmission": {"add": True, "warn": True},
        "policyWarnings": {"enabled": True},
    }
    administrator("create", "namespace", "chart-objects")
    for given in (values, {**EVERYTHING, **values, "certificates": {"mode": "job"}}):
        objects = render({**given, "monitoring": {}}, "chart-objects")
        assert len(objects) > 35
        for body in objects.values():
            url = f"{collection(body)}?dryRun=All&fieldValidation=Strict"
            created = json.loads(administrator("create", "--raw", url, "-f", "-", text=json.dumps(body)))  # fmt: skip
            assert created["metadata"]["uid"]


def test_balance_is_the_example_in_the_given_namespaces(administrator, chart, render):
    """A policy applies to pods of its namespace; the API server accepts it, and observing is the default."""
    example = yaml.safe_load((ROOT / "deploy" / "examples" / "balance" / "policy.yaml").read_text())
    values = {"balance": {"namespaces": ["default", "kube-public"]}, "commonLabels": {"team": "a"}}
    files = chart.render(values=values, name="plimsoll", namespace="plimsoll")
    (text,) = (text for path, text in files.items() if path.endswith("/balance.yaml"))
    policies = list(yaml.safe_load_all(text))
    for namespace, body in zip(("default", "kube-public"), policies, strict=True):
        metadata = body["metadata"]
        assert metadata.pop("namespace") == namespace
        assert metadata.pop("labels") == {"app.kubernetes.io/part-of": "plimsoll", "team": "a"}
        assert body == example
        metadata["namespace"] = namespace
    enforced = {"balance": {"namespaces": ["default"], "enforcement": "enforce"}}
    (annotations,) = (
        one["metadata"]["annotations"]
        for (kind, _), one in render(enforced).items()
        if kind == "TASPolicy"
    )
    assert annotations["plimsoll.io/enforcement"] == "enforce"
    assert ("TASPolicy", "balance") not in render()
    crd = render()["CustomResourceDefinition", "taspolicies.telemetry.intel.com"]
    administrator("apply", "--server-side", "--validate=false", "-f", "-", text=json.dumps(crd))
    administrator("wait", "--for=condition=Established", "crd/taspolicies.telemetry.intel.com")
    for body in policies:
        url = f"{collection(body)}?dryRun=All&fieldValidation=Strict"
        administrator("create", "--raw", url, "-f", "-", text=json.dumps(body))


def test_the_crd_is_upgraded_with_its_policies(administrator, render):
    """`helm upgrade` replaces the CRD of an older chart; stored policies stay."""
    name = "taspolicies.telemetry.intel.com"
    crd = render()["CustomResourceDefinition", name]
    older = json.loads(json.dumps(crd))
    del older["spec"]["names"]["shortNames"]
    for one in (older, crd):
        administrator("apply", "--server-side", "--validate=false", "-f", "-", text=json.dumps(one))
        administrator("wait", "--for=condition=Established", f"crd/{name}")
        if one is older:
            policy = {"apiVersion": "telemetry.intel.com/v1alpha1", "kind": "TASPolicy", "metadata": {"name": "kept"}, "spec": {"strategies": {}}}  # fmt: skip
            administrator(
                "-n", "default", "apply", "--validate=false", "-f", "-", text=json.dumps(policy)
            )
    found = json.loads(administrator("get", "crd", name, "-o", "json"))
    assert found["spec"]["names"]["shortNames"] == ["tas"]
    assert "taspolicy.telemetry.intel.com/kept" in administrator("-n", "default", "get", "taspolicies", "-o", "name")  # fmt: skip


@pytest.fixture(scope="module")
def job(administrator, render, tmp_path_factory):
    """Run the script of the job as its account; return its exit status and output."""
    folder = tmp_path_factory.mktemp("account")
    kubectl = administrator
    kubectl("create", "namespace", "made")
    objects = render(JOB, "made")
    mine = {kind: one for (kind, name), one in objects.items() if name == "plimsoll-certificates"}
    pod = mine["Job"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["command"] == ["python", "/etc/plimsoll/certificates.py"]
    kubectl("apply", "--validate=ignore", "-f", "-", text=yaml.safe_dump_all([mine[kind] for kind in ("ServiceAccount", "Role", "RoleBinding")]))  # fmt: skip
    (folder / "token").write_text(kubectl("-n", "made", "create", "token", "plimsoll-certificates"))
    (folder / "script.py").write_text(mine["ConfigMap"]["data"]["certificates.py"])
    config = json.loads(kubectl("config", "view", "--raw", "--flatten", "-o", "json"))
    cluster = config["clusters"][0]["cluster"]
    (folder / "ca.crt").write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    address = urlsplit(cluster["server"])
    variables = {
        **{one["name"]: one["value"] for one in pod["containers"][0]["env"]},
        "ACCOUNT": str(folder),
        "KUBERNETES_SERVICE_HOST": address.hostname,
        "KUBERNETES_SERVICE_PORT": str(address.port),
        "PATH": os.environ["PATH"],
    }

    def run():
        command = [sys.executable, "-I", str(folder / "script.py")]
        done = subprocess.run(command, env=variables, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    return kubectl, run


def test_job_may_create_secrets_and_read_its_three(render):
    objects = render(JOB)
    made = {key: one for key, one in objects.items() if key not in render(EXISTING)}
    hooks = {one["metadata"]["annotations"]["helm.sh/hook"] for one in made.values()}
    assert hooks == {"pre-install,pre-upgrade"}
    (create, get) = objects["Role", "plimsoll-certificates"]["rules"]
    assert (create["resources"], create["verbs"]) == (["secrets"], ["create"])
    assert (get["resources"], get["verbs"]) == (["secrets"], ["get"])
    assert len(get["resourceNames"]) == 3
    assert {kind for kind, _ in made} == {"ConfigMap", "Job", "Role", "RoleBinding", "ServiceAccount"}  # fmt: skip


def test_job_makes_certificates_of_one_ca_once(job, control_plane, tmp_path):
    kubectl, run = job
    status, printed = run()
    assert (status, printed.count("created secret")) == (0, 3), printed
    for secret, name in (
        ("plimsoll-extender-tls", "plimsoll-evaluator.made.svc"),
        ("plimsoll-agents-tls", "plimsoll-evaluator-agents.made.svc"),
        ("plimsoll-scheduler-client", None),
    ):
        data = json.loads(kubectl("-n", "made", "get", "secret", secret, "-o", "json"))["data"]
        for key in ("ca.crt", "tls.crt", "tls.key"):
            (tmp_path / key).write_bytes(base64.b64decode(data[key]))
        verify = ["openssl", "verify", "-CAfile", "ca.crt", *(["-verify_hostname", name] if name else []), "tls.crt"]  # fmt: skip
        done = subprocess.run(verify, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    renew = [sys.executable, "-P", "-m", "plimsoll", "renew-certificates", "--namespace=made", str(tmp_path / "new")]  # fmt: skip
    done = subprocess.run(renew, env={**os.environ, "KUBECONFIG": str(control_plane.kubeconfig)}, capture_output=True, text=True)  # fmt: skip
    assert done.stdout.count("added the new CA") == 3, done.stderr
    assert run() == (0, "all secrets exist: nothing to do\n")
    kubectl("-n", "made", "delete", "secret", "plimsoll-agents-tls")
    status, printed = run()
    assert status == 1
    assert "plimsoll-agents-tls do not: one CA must sign all" in printed
