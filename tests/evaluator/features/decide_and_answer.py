"""Starts an evaluator on the sandbox's API server and prints the nodes that it refuses to a pod, as JSON.

without.py runs it with trees without some feature, so it asks as kube-scheduler does.
"""

import asyncio
import dataclasses
import json
import tempfile
import urllib.request
from pathlib import Path

import yaml

from evaluator.app import Service
from evaluator.config import Settings
from evaluator.core.kube.client import Kube
from evaluator.core.signals import Decided, wakes
from sandbox.apiserver.server import ApiServer
from sandbox.processes import HeldPort
from tests.patience import PATIENCE

CONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "%s"}}]
users: [{name: u, user: {}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""
CRD = Path(__file__).parents[3] / "deploy/crd/taspolicy.yaml"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POLICIES = "/apis/telemetry.intel.com/v1alpha1/namespaces/default/taspolicies"
RULE = {"metricname": "node_condition_Sick", "operator": "Equals", "target": 1}
POLICY = {
    "apiVersion": "telemetry.intel.com/v1alpha1",
    "kind": "TASPolicy",
    "metadata": {"name": "demo", "namespace": "default"},
    "spec": {"strategies": {"dontschedule": {"rules": [RULE]}}},
}
LABELS = {"telemetry-policy": "demo"}
POD = {"metadata": {"name": "web", "namespace": "default", "labels": LABELS}}
NODES = {"node-a": "True", "node-b": "False"}
SETTINGS = Settings(
    unsafe=True,
    agent_port=0,
    ops_port=0,
    bind_address="127.0.0.1",
    lease_namespace="default",
    shutdown_delay=0.0,
)


def post(url, body):
    """Send an object and return the answer."""
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)


def node(name, state):
    """A ready node, with the condition that the policy's rule reads."""
    conditions = [{"type": "Sick", "status": state}, {"type": "Ready", "status": "True"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"conditions": conditions},
    }


async def refused(service, port):
    """Run the evaluator until it is ready, and return the nodes that it refuses to the pod."""
    stop, at_once = asyncio.Event(), asyncio.Event()
    decided = asyncio.Event()
    service.core.signals.connect(wakes(decided.set, Decided))
    running = asyncio.create_task(service.run(stop, at_once))
    async with asyncio.timeout(PATIENCE):
        while not service.core.loop.is_ready():
            await decided.wait()
            decided.clear()
    body = {"Pod": POD, "NodeNames": list(NODES)}
    answer = await asyncio.to_thread(post, f"http://127.0.0.1:{port}/scheduler/filter", body)
    stop.set()
    at_once.set()
    await running
    return answer["FailedNodes"]


async def main():
    """Print the answer."""
    server = ApiServer()
    url = await server.start()
    await asyncio.to_thread(post, url + CRDS, yaml.safe_load(CRD.read_text()))
    for name, state in NODES.items():
        await asyncio.to_thread(post, f"{url}/api/v1/nodes", node(name, state))
    await asyncio.to_thread(post, url + POLICIES, POLICY)
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config"
        config.write_text(CONFIG % url)
        api = await Kube.connect(str(config))
        with HeldPort() as held:
            settings = dataclasses.replace(SETTINGS, port=held.number)
            failed = await refused(Service(settings, api), held.number)
        await api.close()
    await server.close()
    print(json.dumps(failed))  # noqa: T201 (read by the test)


asyncio.run(main())
