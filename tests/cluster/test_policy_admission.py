"""deploy/policy-admission on a real API server: pods that name a policy get the request, or kubectl warns."""

import json
import shutil
import subprocess

import pytest

from sandbox import manifests
from sandbox.apiserver.server import ApiServer
from tests.cluster.plane import requires

pytestmark = pytest.mark.e2e

FOLDER = manifests.folder() / "policy-admission"
OPTED_IN = {"plimsoll.io/policy-admission": "enabled"}
RESOURCE = "telemetry/scheduling"
GROUP = "admissionregistration.k8s.io/v1"
NEEDS = {"add": "mutatingadmissionpolicies", "warn": "validatingadmissionpolicies"}


@pytest.fixture
def kubectl(world):
    """Run kubectl with an object on standard input; return the process."""
    if isinstance(world.plane.server, ApiServer):
        pytest.skip("the sandbox's API has no admission policies")
    if not shutil.which("kubectl"):
        pytest.skip("no kubectl on PATH")

    def run(*arguments, body=None):
        done = subprocess.run(
            ["kubectl", f"--kubeconfig={world.plane.kubeconfig}", *arguments],
            input=json.dumps(body) if body else None,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done

    return run


@pytest.fixture
async def installed(world, kubectl):
    """Install a folder, and create a namespace that opted in; wait until it has an effect on this pod."""
    folders = []

    async def install(folder, took_effect):
        await requires(world.plane, GROUP, NEEDS[folder])
        folders.append(FOLDER / folder)
        kubectl("apply", "--validate=ignore", "-k", str(FOLDER / folder))
        name = world.name(folder)
        await world.add_namespace(name)
        kubectl("label", "namespace", name, *(f"{k}={v}" for k, v in OPTED_IN.items()))
        await world.eventually(lambda: took_effect(name))
        return name

    yield install
    for folder in folders:
        kubectl("delete", "-k", str(folder))


def pod(policy="demo", *, resources=None, init=None, **spec):
    labels = {"telemetry-policy": policy} if policy else {}
    container = {"name": "c", "image": "i"} | ({"resources": resources} if resources else {})
    if init:
        spec["initContainers"] = [{"name": "i", "image": "i", "resources": init}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "labels": labels},
        "spec": {"containers": [container, {"name": "second", "image": "i"}], **spec},
    }


def create(kubectl, namespace, body):
    command = [
        "create",
        "--validate=ignore",
        "--dry-run=server",
        "--output=json",
        f"--namespace={namespace}",
        "-f",
        "-",
    ]
    done = kubectl(*command, body=body)
    return json.loads(done.stdout), done.stderr.strip()


async def test_request_is_added_in_namespaces_that_opted_in(world, kubectl, installed):
    def resources(namespace, body):
        made, _ = create(kubectl, namespace, body)
        containers = made["spec"]["containers"] + made["spec"].get("initContainers", [])
        return [one["resources"] for one in containers]

    space = await installed("add", lambda name: resources(name, pod())[0])
    ours = {RESOURCE: "1"}
    assert resources(space, pod()) == [{"limits": ours, "requests": ours}, {}]
    cpu = {"requests": {"cpu": "1"}}
    both = {"limits": ours, "requests": {"cpu": "1", **ours}}
    assert resources(space, pod(resources=cpu)) == [both, {}]
    limited = {"limits": {"cpu": "2"}}
    full = {"limits": {"cpu": "2", **ours}, "requests": {"cpu": "2", **ours}}
    assert resources(space, pod(resources=limited)) == [full, {}]
    own = {"limits": {RESOURCE: "3"}, "requests": {RESOURCE: "3"}}
    assert resources(space, pod(resources=own)) == [own, {}]
    assert resources(space, pod(init=own)) == [{}, {}, own]
    assert resources(space, pod(policy="")) == [{}, {}]
    assert resources(space, pod(nodeName="n")) == [{}, {}]
    assert resources(world.namespace, pod()) == [{}, {}]


def workload(kind, version, template, labels=None):
    spec = {"template": {key: template[key] for key in ("metadata", "spec")}}
    meta = spec["template"]["metadata"]
    spec["template"]["metadata"] = {"labels": {"app": "web", **meta["labels"]}}
    if version == "apps/v1":
        spec["selector"] = {"matchLabels": {"app": "web"}}
    else:
        spec["template"]["spec"]["restartPolicy"] = "Never"
    if kind == "CronJob":
        spec = {"schedule": "@daily", "jobTemplate": {"spec": spec}}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "web", "labels": labels or {}},
        "spec": spec,
    }


async def test_missing_request_causes_a_warning(world, kubectl, installed):
    def warning(namespace, body):
        return create(kubectl, namespace, body)[1]

    asked = {"limits": {RESOURCE: "1"}}
    space = await installed("warn", lambda name: warning(name, pod()))
    says = "policy demo has no effect on where the pod is placed"
    assert says in warning(space, pod())
    assert warning(space, pod(resources=asked)) == warning(space, pod(policy="")) == ""
    assert warning(space, pod(init=asked)) == ""
    for kind, version in (
        ("Deployment", "apps/v1"),
        ("StatefulSet", "apps/v1"),
        ("DaemonSet", "apps/v1"),
        ("Job", "batch/v1"),
        ("CronJob", "batch/v1"),
    ):
        assert says in warning(space, workload(kind, version, pod())), kind
        assert warning(space, workload(kind, version, pod(resources=asked))) == "", kind
    misplaced = workload("Deployment", "apps/v1", pod(policy=""), {"telemetry-policy": "demo"})
    assert "on the workload and not on its pod template" in warning(space, misplaced)
    assert warning(world.namespace, pod()) == ""
