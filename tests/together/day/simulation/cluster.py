"""The sandbox's API server without its port: real logic over in-memory connections, with injected faults."""

import asyncio
import contextlib

import aiohttp
from aiohttp import web
from connections import Connector

from evaluator.core.kube import connection
from sandbox import manifests
from sandbox.apiserver.server import ApiServer
from sandbox.client.client import ApiError, Client, ensure
from sandbox.client.objects import CRDS, EVENTS, LEASES, NODES, PODS, POLICIES, ObjectKind
from sandbox.controllers.nodes import node_object

CONFIG_MAPS = ObjectKind("configmaps")
ADMIN = "admin"
RIVAL = "rival"
NAMESPACE = "default"


async def fine(server, request):
    return await server.forward(request)


def says(status, **headers):
    async def act(_server, _request):
        body = {"kind": "Status", "code": status, "message": "bad weather"}
        return web.json_response(body, status=status, headers=headers)

    return act


async def hangs(_server, _request):
    await asyncio.Event().wait()


async def resets(_server, request):
    request.transport.abort()
    return web.Response()


async def loses_answers(server, request):
    """The request is done, and its response is lost."""
    if not is_watch(request):
        await server.forward(request)
    return await resets(server, request)


def slow(seconds):
    async def act(server, request):
        await asyncio.sleep(seconds)
        return await server.forward(request)

    return act


def is_watch(request):
    return request.query.get("watch") == "true"


class Server:
    """Hosts are clients: each replica uses a host name of its own, so that faults apply per replica."""

    def __init__(self):
        self.api = ApiServer(history=500, bookmark_interval=3.0)
        self.weather = {}
        """Faults by host; missing: `fine`. None: nothing listens."""
        self._watches = {}
        self._runner = None

    @property
    def store(self):
        return self.api._cluster.store

    async def start(self):
        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
        await self._runner.setup()
        # Clients of the API server created from now on connect here.
        connection._Connections._create_connector = lambda _self: self.connector()

    async def close(self):
        self.api._watches.close()
        await self._runner.cleanup()

    def connector(self):
        return Connector(self._accept)

    def _accept(self, host):
        if self.weather.get(host, fine) is None:
            raise ConnectionRefusedError(111, "nothing listens")
        return self._runner.server()

    async def _handle(self, request):
        act = self.weather.get(request.url.host, fine)
        if act is None:
            return await resets(self, request)
        self._watches[id(request)] = request
        try:
            return await act(self, request)
        finally:
            del self._watches[id(request)]

    async def forward(self, request):
        return await self.api._frontend.handle(request)

    def _open(self, host):
        return [
            request.transport
            for request in self._watches.values()
            if request.url.host == host and request.transport is not None
        ]

    def cut(self, host):
        """Break open connections."""
        for transport in self._open(host):
            transport.abort()

    def silence(self, host):
        """Keep open connections without delivering anything."""
        for transport in self._open(host):
            if not transport.is_closing():
                transport.other.held = True

    def expire(self):
        self.api.expire_history()


class Admin:
    """Writes of users and other controllers; never faulty."""

    def __init__(self, server):
        self._server = server
        self.client = Client(f"http://{ADMIN}")
        self.theirs = {}
        """(node, key) → label value set by another manager."""

    async def start(self):
        self.client._session = aiohttp.ClientSession(connector=self._server.connector())
        for crd in manifests.crds():
            await ensure(self.client, CRDS, crd)
        meta = {"name": "owner", "namespace": NAMESPACE}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
        made = await self.client.create(CONFIG_MAPS, body)
        # An object that exists, or the pods would be collected. Nothing recreates them.
        self._owner = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": "owner",
            "uid": made["metadata"]["uid"],
            "controller": True,
        }

    async def close(self):
        await self.client.close()

    def objects(self, collection):
        return [record.obj for _, record in self._server.store.items(collection)]

    def nodes(self):
        return {obj["metadata"]["name"]: obj for obj in self.objects("nodes")}

    def policies(self):
        found = self.objects("taspolicies.telemetry.intel.com")
        return {obj["metadata"]["name"]: obj for obj in found}

    async def add_node(self, name, clock):
        body = node_object(name, 0, now=clock.wall())
        status = body.pop("status")
        body["spec"] = {}
        made = await self.client.create(NODES, body)
        await self.client.update(NODES, made | {"status": status}, subresource="status")
        await self.client.patch(NODES, name, {"spec": {"taints": None}})

    async def drop_node(self, name):
        for node, key in tuple(self.theirs):
            if node == name:
                del self.theirs[node, key]
        await self.client.delete(NODES, name)

    async def beat(self, name, clock):
        """A kubelet heartbeat: an irrelevant change."""
        condition = {"type": "Ready", "status": "True", "reason": f"at {clock.now:.0f}"}
        body = {"status": {"conditions": [condition]}}
        kind = "application/strategic-merge-patch+json"
        await self.client.patch(NODES, name, body, subresource="status", content_type=kind)

    async def put_policy(self, name, spec):
        if (found := self.policies().get(name)) is not None:
            meta = {
                **found["metadata"],
                "resourceVersion": "",
            }  # whichever controller writes its status meanwhile
            await self.client.update(POLICIES, {**found, "metadata": meta, "spec": spec})
            return
        meta = {"name": name, "namespace": NAMESPACE}
        body = {"apiVersion": POLICIES.api_version, "kind": "TASPolicy", "metadata": meta}
        await self.client.create(POLICIES, {**body, "spec": spec})

    async def drop_policy(self, name):
        await self.client.delete(POLICIES, name, NAMESPACE)

    async def take_label(self, node, key, value):
        """Another manager forces this label; None removes it."""
        if (self.nodes()[node]["metadata"].get("labels") or {}).get(key) == value:
            return
        self.theirs[node, key] = value
        await self.client.patch(NODES, node, {"metadata": {"labels": {key: value}}})
        if value is None:
            del self.theirs[node, key]

    async def add_pod(self, name, policy, node="", because=""):
        meta = {"name": name, "namespace": NAMESPACE, "labels": {"telemetry-policy": policy}}
        meta["ownerReferences"] = [self._owner]
        spec = {"containers": [{"name": "c", "image": "none"}], "terminationGracePeriodSeconds": 0}
        if node:
            spec["nodeName"] = node
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        await self.client.create(PODS, body)
        if because:
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            body = {"status": {"conditions": [{**condition, "message": because}]}}
            await self.client.patch(PODS, name, body, NAMESPACE, subresource="status")

    async def clear(self, resource, collection, *, but=lambda _obj: False):
        for obj in self.objects(collection):
            if but(obj):
                continue
            meta = obj["metadata"]
            with contextlib.suppress(ApiError):  # another writer was faster
                await self.client.delete(resource, meta["name"], meta.get("namespace", ""), grace=0)

    async def clear_leases(self):
        await self.clear(LEASES, "leases.coordination.k8s.io")

    async def clear_pods_and_events(self):
        """Delete all events: API servers do so after an hour. Pods of gangs stay."""
        await self.clear(
            PODS, "pods", but=lambda pod: "podGroup" in (pod["metadata"].get("labels") or {})
        )
        await self.clear(EVENTS, "events")
