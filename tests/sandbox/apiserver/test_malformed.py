"""Malformed objects are stored or rejected with a reason, never a server error."""

import copy
import itertools
import logging

import pytest

from sandbox.apiserver.cluster import Cluster
from sandbox.apiserver.controllers import BuiltInControllers
from sandbox.apiserver.errors import ApiError
from sandbox.apiserver.http.columns import columns_of
from sandbox.apiserver.http.tables import row
from sandbox.apiserver.writes.actions import Actions
from sandbox.apiserver.writes.deletion import DeleteOptions, Remover
from sandbox.apiserver.writes.writes import WriteOptions, Writer

LABELS = {"app": "web"}
CONTAINER = {
    "name": "c",
    "image": "nginx:1",
    "ports": [{"containerPort": 80}],
    "env": [{"name": "A", "value": "1"}],
    "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}},
}
POD_SPEC = {
    "containers": [CONTAINER],
    "nodeSelector": {"a": "b"},
    "tolerations": [{"key": "k", "operator": "Exists"}],
    "schedulingGates": [{"name": "g"}],
    "terminationGracePeriodSeconds": 5,
}
METADATA = {
    "name": "x",
    "labels": LABELS,
    "annotations": {"a": "b"},
    "finalizers": ["a/b"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u"}],
}
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["a"],
            "properties": {
                "a": {"type": "string", "pattern": "x", "minLength": 1, "enum": ["x"]},
                "b": {"type": "array", "items": {"type": "integer", "minimum": 1}},
            },
        }
    },
}
OBJECTS = {
    "pods": {"spec": POD_SPEC},
    "nodes": {
        "spec": {"taints": [{"key": "k"}]},
        "status": {
            "capacity": {"cpu": "1"},
            "addresses": [{"type": "InternalIP", "address": "a"}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    },
    "deployments": {
        "spec": {
            "replicas": 1,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
            "selector": {
                "matchLabels": LABELS,
                "matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}],
            },
            "template": {"metadata": {"labels": LABELS}, "spec": POD_SPEC},
        }
    },
    "poddisruptionbudgets": {"spec": {"minAvailable": 1, "selector": {"matchLabels": LABELS}}},
    "services": {"spec": {"ports": [{"port": 80}], "selector": LABELS}},
    "secrets": {"stringData": {"a": "b"}, "data": {"c": "ZA=="}},
    "events": {"involvedObject": {"kind": "Pod"}, "source": {"component": "x"}, "count": 2},
    "customresourcedefinitions": {
        "metadata": {**METADATA, "name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["w"]},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": SCHEMA},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        {"name": "A", "type": "string", "jsonPath": ".spec.a"}
                    ],
                }
            ],
        },
    },
}
ODD = [None, 0, -1, 1.5, True, "", "text", "\x00", [], [None], ["a"], {}, {"a": {}}]


def places(value, path=()):
    """Every path into a value except the root."""
    inner = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    for key, item in inner:
        yield (*path, key)
        yield from places(item, (*path, key))


@pytest.fixture
def mutants(soak):
    """Yield each changed copy of an object with --soak, else each fourth: every value gets some of the odd ones."""
    return lambda good: itertools.islice(all_mutants(good), 0, None, 1 if soak else 4)


def all_mutants(good):
    """Yield a copy of the object for each of its values and each odd value in its place."""
    for path in places(good):
        for odd in ODD:
            bad = copy.deepcopy(good)
            target = bad
            for key in path[:-1]:
                target = target[key]
            target[path[-1]] = copy.deepcopy(odd)
            yield path, odd, bad


class Server:
    """The server's logic without HTTP."""

    def __init__(self):
        self.cluster = Cluster(lambda: 1_700_000_000.0, 1000)
        self.writer = Writer(self.cluster)
        self.remover = Remover(self.cluster)
        self.actions = Actions(self.cluster, self.writer, self.remover)
        self.upkeep = BuiltInControllers(self.cluster, self.remover, lambda action: action())
        metadata = {"name": "default", "uid": "ns"}
        self.cluster.store.put("namespaces", ("", "default"), {"metadata": metadata})

    def resource(self, plural):
        return next(r for r in self.cluster.registry if r.plural == plural)

    def show(self):
        for resource in self.cluster.registry:
            for _, record in self.cluster.store.items(resource.collection):
                row(columns_of(resource), record.obj, now=1_700_000_100.0)


def complaint(action, *args):
    """The defect in an action's result; empty if it succeeded or was rejected."""
    try:
        action(*args)
    except ApiError as error:
        return "" if 400 <= error.code < 500 else error.message
    except Exception as error:
        logging.getLogger(__name__).exception("failed")
        return repr(error)
    return ""


def create_and_show(plural, bad):
    server = Server()
    resource = server.resource(plural)
    namespace = "default" if resource.namespaced else ""
    try:
        server.writer.create(resource, namespace, bad, WriteOptions())
    finally:
        server.upkeep.settle()
        server.show()


def patch_and_delete(server, plural, bad, media_type, subresource):
    resource = server.resource(plural)
    key = ("default" if resource.namespaced else "", sample(plural)["metadata"]["name"])
    options = WriteOptions(subresource=subresource)
    try:
        server.writer.patch(resource, key, bad, media_type, options)
    finally:
        server.upkeep.settle()
        server.show()
        server.remover.delete(resource, key, DeleteOptions())
        server.upkeep.settle()


def sample(plural):
    return {"metadata": copy.deepcopy(METADATA), **copy.deepcopy(OBJECTS[plural])}


@pytest.mark.parametrize("plural", sorted(OBJECTS))
def test_malformed_objects_cause_no_server_error(plural, mutants):
    failures = {
        (path, repr(odd)): said
        for path, odd, bad in mutants(sample(plural))
        if (said := complaint(create_and_show, plural, bad))
    }
    assert failures == {}


@pytest.mark.parametrize("plural", sorted(OBJECTS))
@pytest.mark.parametrize("way", ["merge", "strategic-merge"])
@pytest.mark.parametrize("subresource", ["", "status"])
def test_malformed_patches_cause_no_server_error(plural, way, subresource, mutants):
    failures = {}
    good = sample(plural)
    good["metadata"]["ownerReferences"] = []
    for path, odd, bad in mutants(sample(plural)):
        server = Server()
        resource = server.resource(plural)
        namespace = "default" if resource.namespaced else ""
        server.writer.create(resource, namespace, copy.deepcopy(good), WriteOptions())
        server.upkeep.settle()
        form = f"application/{way}-patch+json"
        if said := complaint(patch_and_delete, server, plural, bad, form, subresource):
            failures[path, repr(odd)] = said
    assert failures == {}


@pytest.mark.parametrize("subresource", ["binding", "eviction"])
def test_malformed_actions_cause_no_server_error(subresource, mutants):
    good = {
        "metadata": {"name": "x", "annotations": {"a": "b"}, "uid": "u"},
        "target": {"kind": "Node", "name": "n"},
        "deleteOptions": {"gracePeriodSeconds": 1, "preconditions": {"uid": "u"}},
    }
    failures = {}
    for path, odd, bad in mutants(good):
        server = Server()
        pods = server.resource("pods")
        spec = {"containers": [copy.deepcopy(CONTAINER)]}
        body = {"metadata": {"name": "x"}, "spec": spec}
        server.writer.create(pods, "default", body, WriteOptions())
        where, options = ("default", "x"), WriteOptions(subresource=subresource)
        if said := complaint(server.actions.create, pods, where, bad, options):
            failures[path, repr(odd)] = said
        server.upkeep.settle()
        server.show()
    assert failures == {}
