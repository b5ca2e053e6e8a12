"""A scenario's part of a cluster: its objects, the evaluator and simulated agents."""

import contextlib
import copy
import secrets
from http import HTTPStatus

from sandbox.client.client import STRATEGIC, ApiError
from sandbox.client.objects import NAMESPACES, NODES, PODS, POLICIES, ObjectKind
from sandbox.controllers.nodes import node_object
from tests.cluster.fleet import Fleet
from tests.eventually import eventually

CONFIG_MAPS = ObjectKind("configmaps", "v1")
BUDGETS = ObjectKind("poddisruptionbudgets", "policy/v1")
OURS = "example.com/scenario"
"""Label of a scenario's objects, so that it deletes only those."""


class World:
    """One scenario's part of a cluster. Names get a suffix unique to the scenario; `name` adds it."""

    def __init__(self, plane, evaluator):
        self.plane = plane
        self.client = plane.client
        self.evaluator = evaluator
        self.fleet = Fleet(evaluator.agents)
        self.suffix = secrets.token_hex(3)
        self.namespace = f"plimsoll-{self.suffix}"
        self.eventually = eventually
        self.marks = OURS
        self._owners = {}

    def name(self, name):
        return f"{name}-{self.suffix}"

    def _meta(self, name, namespace=None):
        meta = {"name": name, "labels": {OURS: self.suffix}}
        return meta | ({"namespace": namespace} if namespace else {})

    async def add_namespace(self, name):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": self._meta(name)}
        await self.client.create(NAMESPACES, body)

    async def add_node(self, name, *, ready=True, **labels):
        """Create a ready node; return its full name."""
        full = self.name(name)
        body = node_object(full, 0, now=1e9)
        body["metadata"]["labels"] |= {OURS: self.suffix, **labels}
        # The pod CIDRs of two nodes must differ.
        body["spec"] = {}
        status = copy.deepcopy(body.pop("status"))
        for condition in status["conditions"]:
            if condition["type"] == "Ready":
                condition["status"] = "True" if ready else "False"
        await self.client.create(NODES, body)
        # A controller, if any, removes the taint that a new node has.
        await self.client.patch(NODES, full, {"spec": {"taints": None}})
        await self.client.patch(
            NODES, full, {"status": status}, subresource="status", content_type=STRATEGIC
        )
        return full

    async def add_policy(self, name, namespace=None, *, spec=None, annotations=None, **strategies):
        """Create a policy with a unique name; strategies are lists of rules such as "health Equals 1"."""
        full = self.name(name)
        body = {
            "apiVersion": POLICIES.api_version,
            "kind": "TASPolicy",
            "metadata": {
                **self._meta(full, namespace or self.namespace),
                **({"annotations": annotations} if annotations else {}),
            },
            "spec": spec or spec_of(**strategies),
        }
        await self.client.create(POLICIES, body)
        return full

    async def edit_policy(self, name, **strategies):
        """Replace the strategies of a policy, however often its status is written meanwhile."""

        async def edited():
            found = await self.client.get(POLICIES, name, self.namespace)
            try:
                await self.client.update(POLICIES, {**found, "spec": spec_of(**strategies)})
            except ApiError as error:
                if error.status != HTTPStatus.CONFLICT:
                    raise
                return False
            return True

        await self.eventually(edited)

    async def add_pod(self, name, policy="", node="", *, app="web", bare=False, **spec):
        """Create a pod with a policy and, unless it is `bare`, a controller, bound to a node if one is named."""
        meta = self._meta(name, self.namespace)
        meta["ownerReferences"] = [] if bare else [await self._controller(app)]
        meta["labels"] |= {"app": app} | ({"telemetry-policy": policy} if policy else {})
        container = {
            "name": "c",
            "image": "none",
            "resources": {"limits": {"telemetry/scheduling": "1"}} if policy else {},
        }
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta,
            "spec": {
                "containers": [container],
                "terminationGracePeriodSeconds": 0,
                **({"nodeName": node} if node else {}),
                **spec,
            },
        }
        return await self.client.create(PODS, body)

    async def _controller(self, app):
        """The reference of a controller of pods: an object that no program acts on, so that the test keeps control."""
        kind = {"apiVersion": "v1", "kind": "ConfigMap"}
        if app not in self._owners:
            body = {**kind, "metadata": self._meta(app, self.namespace)}
            made = await self.client.create(CONFIG_MAPS, body)
            self._owners[app] = made["metadata"]["uid"]
        return {**kind, "name": app, "uid": self._owners[app], "controller": True}

    async def labels(self, node):
        """The labels of a node that a policy of the scenario may have set."""
        found = (await self.client.get(NODES, node))["metadata"].get("labels") or {}
        return {key: value for key, value in found.items() if self.suffix in key}

    async def labelled(self, node, **wanted):
        """Wait until those are exactly these."""

        async def agree():
            return await self.labels(node) == wanted

        try:
            await eventually(agree)
        except TimeoutError:
            found = await self.labels(node)
            raise AssertionError(
                f"{node} has {found}, not {wanted}{self.evaluator.log()}"
            ) from None

    async def status(self, policy, predicate):
        """A policy's status once it exists and satisfies a predicate."""

        async def told():
            found = (await self.client.get(POLICIES, policy, self.namespace)).get("status")
            return found if found and predicate(found) else None

        return await eventually(told)

    async def start(self, *flags, **changes):
        """Start the evaluator and wait until it is ready."""
        if not any(flag.startswith("--leaseNamespace") for flag in flags):
            flags = (f"--leaseNamespace={self.namespace}", *flags)
        await self.evaluator.start(*flags, **changes)
        await self.evaluator.ready()

    async def clear(self):
        """Delete this scenario's objects. Namespaces stay if no controller empties them."""
        mine = f"{OURS}={self.suffix}"
        for kind in (POLICIES, BUDGETS, PODS, NODES):
            for obj in (await self.client.list(kind, labels=mine)).items:
                meta = obj["metadata"]
                with contextlib.suppress(ApiError):
                    await self.client.delete(kind, meta["name"], meta.get("namespace", ""), grace=0)
        for obj in (await self.client.list(NAMESPACES, labels=mine)).items:
            with contextlib.suppress(ApiError):
                await self.client.delete(NAMESPACES, obj["metadata"]["name"])


def spec_of(**strategies):
    """A policy spec from short rules: `dontschedule=["health Equals 1"]`, `labeling=["health Equals 1: tier=low"]`."""
    return {
        "strategies": {name: {"rules": [*map(rule, body)]} for name, body in strategies.items()}
    }


def rule(text):
    """A rule from `health Equals 1`, or `health Equals 1: tier=low` with labels."""
    words, _, labels = text.partition(": ")
    metric, operator, target = words.split()
    body = {"metricname": metric, "operator": operator, "target": int(target)}
    return body | ({"labels": labels.split(",")} if labels else {})
