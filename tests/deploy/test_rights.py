"""The evaluator works on a real API server with exactly the rights of the manifests."""

import asyncio
import contextlib
import copy
import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest
import yaml

from evaluator.config import Settings
from plimsoll import flags
from plimsoll.commandline import Parser
from sandbox.client.client import ApiError, Client, ensure
from sandbox.client.objects import EVENTS, NODES, PODS, POLICIES, ObjectKind
from sandbox.controllers.nodes import node_object
from sandbox.endpoints import kubeconfig
from sandbox.processes import HeldPort
from sandbox.programs import EvaluatorLaunch, evaluator_command
from tests import preloaded
from tests.patience import PATIENCE
from tests.preloaded import Processes

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"<!-- tested: tests/deploy/test_rights.py -->\n```sh\n(.*?)```", re.DOTALL)
TAS = ("telemetry-aware-scheduling", "telemetry-aware-scheduling-service-account")
LEASES = ObjectKind("leases", "coordination.k8s.io/v1")
REPLICA_SETS = ObjectKind("replicasets", "apps/v1")
FORBIDDEN = re.compile(r"\b403\b")
"""A rejection in the log; a time or port may contain such digits."""


@pytest.fixture
def shell(run):
    return functools.partial(run, "bash")


@pytest.fixture
async def client(control_plane, kubectl, built):
    """An administrator's client, in a cluster with a node and a policy violated by missing readings."""
    kubectl(
        "apply",
        "--server-side",
        "--validate=ignore",
        "-f",
        "-",
        given=yaml.safe_dump_all(built("crd")),
    )
    kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    rule = {"metricname": "m", "operator": "Equals", "target": 1}
    strategy = {"whenMissing": "violate", "rules": [rule]}
    policy = {
        "apiVersion": POLICIES.api_version,
        "kind": "TASPolicy",
        "metadata": {"name": "strict", "namespace": "default"},
        "spec": {"strategies": {"deschedule": strategy}},
    }
    node = node_object("node-a", 0, now=1e9)
    async with Client(
        control_plane.url, token=control_plane.token, ca=control_plane.ca
    ) as connected:
        for kind, obj in ((POLICIES, policy), (NODES, node)):
            await ensure(connected, kind, obj)
        yield connected
        with contextlib.suppress(ApiError):
            await connected.delete(POLICIES, "strict", "default")
        await connected.delete(NODES, "node-a")


@pytest.fixture
async def evaluator_as(control_plane, kubectl, tmp_path):
    """Start the evaluator as a ServiceAccount, given its namespace and name; return its log."""
    programs = Processes(tmp_path / "logs")
    ports = [HeldPort() for _ in range(3)]

    async def start(namespace, account, *more):
        token = kubectl("-n", namespace, "create", "token", account).strip()
        config = tmp_path / f"{account}.kubeconfig"
        config.write_text(kubeconfig(control_plane.url, token=token, ca=control_plane.ca))
        launch = EvaluatorLaunch(
            kubeconfig=config,
            extender_port=ports[0].number,
            agent_port=ports[1].number,
            ops_port=ports[2].number,
            sync_period=1.0,
            flags=("--leaderElect", f"--leaseNamespace={namespace}", *more),
        )
        await programs.start("evaluator", evaluator_command(launch))
        return (tmp_path / "logs" / "evaluator.log").read_text

    yield start
    await programs.close()
    for port in ports:
        port.close()


async def until(answer):
    """Wait until a coroutine function returns a true value."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if await answer():
                return
            await asyncio.sleep(0.1)


async def does_its_work(client, namespace, log):
    """It labels, writes the status, holds the lease, and no request is forbidden."""

    async def done():
        assert not FORBIDDEN.search(log()), log()
        node = await client.get(NODES, "node-a")
        policy = await client.get(POLICIES, "strict", "default")
        leases = [one["metadata"]["name"] for one in (await client.list(LEASES, namespace)).items]
        return (
            node["metadata"]["labels"].get("strict") == "violating"
            and policy.get("status", {}).get("compliance") == "Violated"
            and leases == ["plimsoll-evaluator"]
        )

    try:
        await until(done)
    except TimeoutError:
        raise AssertionError(log()) from None


def rights(objects):
    """All objects that define an account's rights."""
    wanted = {"Namespace", "ServiceAccount", "Role", "RoleBinding", "ClusterRole"}
    wanted |= {
        "ClusterRoleBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
    return yaml.safe_dump_all([obj for obj in objects if obj["kind"] in wanted])


async def test_evaluator_works_with_the_rights_of_the_manifests(
    client, kubectl, with_components, evaluator_as
):
    """With the rights of RBAC as limited by the guard, and no others."""
    given = rights(with_components("core", "guard"))
    kubectl("apply", "--server-side", "--validate=ignore", "-f", "-", given=given)
    log = await evaluator_as(
        "plimsoll", "plimsoll-evaluator", "--staleAfter=2s", "--scorers=safe,reward"
    )
    await does_its_work(client, "plimsoll", log)


def gang(name, owner=None, **labels):
    """A pod with our gate, optionally of a controller."""
    meta = {"name": name, "namespace": "default", "labels": labels}
    if owner:
        meta["ownerReferences"] = [owner]
    spec = {
        "automountServiceAccountToken": False,
        "schedulingGates": [{"name": "plimsoll.io/gang"}],
        "containers": [{"name": "c", "image": "none"}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def of_one_replica(name):
    """A ReplicaSet without a controller that creates its pods."""
    pod = {"spec": {"containers": [{"name": "c", "image": "none"}]}}
    selector = {"matchLabels": {"app": name}}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": 1,
            "selector": selector,
            "template": {"metadata": {"labels": selector["matchLabels"]}, **pod},
        },
    }


async def test_gangs_work_with_the_rights_of_their_component(
    client, kubectl, with_components, evaluator_as
):
    """It lifts gates, writes events on waiting pods, and diagnoses their controllers; the guard allows it."""
    given = rights(with_components("core", "gangs", "guard"))
    kubectl("apply", "--server-side", "--validate=ignore", "-f", "-", given=given)
    kubectl("patch", "node", "node-a", "-p", '{"spec": {"taints": null}}')
    made = await client.create(REPLICA_SETS, of_one_replica("half"))
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "half", "controller": True}
    owner["uid"] = made["metadata"]["uid"]
    of_two = {"minAvailable": "2"}
    await client.create(PODS, gang("half-0", owner, podGroup="half", **of_two))
    for name in ("whole-0", "whole-1"):
        await client.create(PODS, gang(name, podGroup="whole", **of_two))
    log = await evaluator_as("plimsoll", "plimsoll-evaluator", "--gangs", "--staleAfter=2s")

    async def done():
        assert not FORBIDDEN.search(log()), log()
        pods = (await client.list(PODS, "default")).items
        held = {pod["metadata"]["name"] for pod in pods if pod["spec"].get("schedulingGates")}
        told = [one["message"] for one in (await client.list(EVENTS, "default")).items]
        return held == {"half-0"} and any("ReplicaSet half" in text for text in told)

    try:
        await until(done)
    except TimeoutError:
        raise AssertionError(log()) from None


async def test_custom_metrics_are_served_with_the_rights_of_their_component(
    client, control_plane, kubectl, with_components, evaluator_as, tmp_path, authority
):
    """It reads the front proxy's CA, reviews tokens and permissions, and its role for readers permits a metric."""
    given = rights(with_components("core", "serve-custom-metrics", "guard"))
    kubectl("apply", "--server-side", "--validate=ignore", "-f", "-", given=given)
    for name in ("reader", "other"):
        kubectl("create", "serviceaccount", name)
    role = "--clusterrole=plimsoll-custom-metrics-reader"
    kubectl("create", "clusterrolebinding", "reader", role, "--serviceaccount=default:reader")
    cert, key = authority.issue("evaluator")
    front_proxy = control_plane.rotate_front_proxy("front-proxy-ca-of-rights")
    with HeldPort() as port:
        log = await evaluator_as(
            "plimsoll",
            "plimsoll-evaluator",
            "--staleAfter=2s",
            *(f"--customMetricsPort={port.number}", f"--cert={cert}", f"--key={key}"),
        )

        async def status(headers, *pair):
            url = f"https://127.0.0.1:{port.number}/apis/custom.metrics.k8s.io/v1beta2/nodes/*/m"
            try:
                async with (
                    aiohttp.ClientSession() as session,
                    session.get(url, headers=headers, ssl=authority.client(*pair)) as response,
                ):
                    unasked = "reviewed" in await response.text()
                    # No agent runs: 503 at first, then 404, which both follow a permission.
                    return 404 if response.status == 503 and not unasked else response.status
            except aiohttp.ClientError:
                return 0  # not started, or the new CA is not published yet

        def of(account):
            return {"Authorization": f"Bearer {kubectl('create', 'token', account).strip()}"}

        async def reached(wanted, headers, *pair):
            async def agrees():
                assert not FORBIDDEN.search(log()), log()
                return await status(headers, *pair) == wanted

            await until(agrees)

        await reached(404, of("reader"))
        assert await status(of("other")) == 403
        reader = {"X-Remote-User": "system:serviceaccount:default:reader"}
        await reached(404, reader, *front_proxy)
        assert await status({"X-Remote-User": "nobody"}, *front_proxy) == 403
        assert await status(reader) == 401


def test_server_side_apply_refuses_to_take_over_an_apiservice(control_plane, built):
    """The documented command does not replace what another program registered."""
    (mine,) = [
        obj
        for obj in built("custom-metrics-api")
        if obj["metadata"]["name"] == "v1beta2.custom.metrics.k8s.io"
    ]
    theirs = copy.deepcopy(mine)
    theirs["spec"]["service"] = {"namespace": "monitoring", "name": "adapter", "port": 443}

    def kubectl(*arguments, given):
        return subprocess.run(
            ("kubectl", *arguments, "-f", "-"),
            input=yaml.safe_dump(given),
            env={**os.environ, "KUBECONFIG": str(control_plane.kubeconfig)},
            capture_output=True,
            text=True,
        )

    assert kubectl("create", given=theirs).returncode == 0
    refused = kubectl("apply", "--server-side", given=mine)
    assert kubectl("delete", "--wait=false", given=theirs).returncode == 0
    assert refused.returncode != 0
    assert "conflict" in refused.stderr
    assert ".spec.service.name" in refused.stderr


@pytest.fixture
def tas(client, kubectl):
    """Telemetry Aware Scheduling as in its own manifests: its account, its Deployment, and a label that it wrote."""
    namespace, account = TAS
    container = {
        "name": "tasext",
        "image": "tas:0.7",
        "command": [
            "/extender",
            "--syncPeriod=2s",
            "--cert=/tas/cert/tls.crt",
            "--key=/tas/cert/tls.key",
            "--cacert=/var/run/secrets/kubernetes.io/serviceaccount/ca.crt",
            "--v=2",
        ],
    }
    labels = {"app": "tas"}
    pod = {
        "metadata": {"labels": labels},
        "spec": {"serviceAccountName": account, "containers": [container]},
    }
    meta = {"name": namespace, "namespace": namespace}
    objects = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": account, "namespace": namespace},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": meta,
            "spec": {"selector": {"matchLabels": labels}, "template": pod},
        },
    ]
    kubectl("apply", "--validate=ignore", "-f", "-", given=yaml.safe_dump_all(objects))
    patch = '[{"op": "add", "path": "/metadata/labels/strict", "value": "violating"}]'
    kubectl("patch", "node", "node-a", "--type=json", "-p", patch)
    return client


async def test_evaluator_works_in_place_of_tas(tas, kubectl, shell, evaluator_as, tmp_path):
    """The commands of docs/switching-from-tas.md give TAS's own Deployment all rights that the evaluator needs."""
    namespace, account = TAS
    block = BLOCK.search((ROOT / "docs" / "switching-from-tas.md").read_text())
    commands = block[1].replace(
        "kubectl create namespace plimsoll\n", ""
    )  # created by the previous test
    kubectl("apply", "--validate=ignore", "-f", "deploy/core/namespace.yaml")
    shell("-euo", "pipefail", "-c", commands)
    found = yaml.safe_load(
        kubectl("-n", namespace, "get", "deployment", "telemetry-aware-scheduling", "-oyaml")
    )
    (container,) = found["spec"]["template"]["spec"]["containers"]
    program, *given = container["command"]
    assert program == "/extender"
    parser = Parser("plimsoll-evaluator", about="", examples="", usage="")
    assert flags.parse_settings(Settings, parser, argv=given, env={}).mistakes() == []

    # Certificates are tested elsewhere, and there is no adapter here: the requested metric is missing.
    plain = [flag for flag in given if not re.match("--(cert|key|cacert|syncPeriod)=", flag)]
    log = await evaluator_as(namespace, account, "--staleAfter=2s", *plain)
    await does_its_work(tas, namespace, log)

    async def gone():
        return "strict" not in (await tas.get(NODES, "node-a"))["metadata"]["labels"]

    config = tmp_path / f"{account}.kubeconfig"
    command = (sys.executable, "-P", "-m", "evaluator", "adopt-labels", f"--kubeConfig={config}")
    _, out, _ = await preloaded.run(command)
    assert out.endswith("took over 1 label on 1 node\n"), out
    await tas.delete(POLICIES, "strict", "default")
    await until(gone)
    assert not FORBIDDEN.search(log()), log()
