"""The roles allow exactly the requests of evaluator/core/kube/client.py: each method is called and its request checked."""

import contextlib
import inspect
from typing import NamedTuple

import pytest
import yaml
from aiohttp import web

from evaluator.config import Settings
from evaluator.core.kube import resources
from evaluator.core.kube.client import Kube
from evaluator.core.kube.transport import KubeError
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node import Node, NodeMeta
from evaluator.core.model.node_labels import LabelApply
from evaluator.core.sources.custom_metrics import path_of

VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
LEASE = {"namespace": "plimsoll", "name": Settings().lease_name}
REWARDS = {"namespace": "plimsoll", "name": "plimsoll-rewards"}
EVICTIONS = {"namespace": "plimsoll", "name": "plimsoll-evictions"}
CONTROLLERS = [
    ("batch/v1", "jobs"),
    ("apps/v1", "statefulsets"),
    ("apps/v1", "replicasets"),
    ("v1", "replicationcontrollers"),
]
"""API version and resource of the controllers of pods."""
RESOURCES = [
    *((one,) for _, one in inspect.getmembers(resources) if isinstance(one, resources.APIResource)),
    (resources.config_map("plimsoll", "plimsoll-stop"),),
    (resources.secret("plimsoll", "plimsoll-history"),),
]

EXAMPLES = {
    "list_page": RESOURCES,
    "pages": RESOURCES,
    "put_managed_fields": [({"metadata": {"name": "n", "resourceVersion": "1"}}, [])],
    "read_group": [("custom.metrics.k8s.io",)],
    "get_raw": [(path_of("v1beta2", "m"), 9)],
    "watch": [(*resource, "1") for resource in RESOURCES],
    "apply_node_labels": [(LabelApply("n", "u", {}),)],
    "patch_node": [("n", [])],
    "list_node": [("n",)],
    "patch_node_status": [("n", [])],
    "apply_node_annotations": [(Node(NodeMeta(name="n", uid="u", resource_version="1")), {}, "m")],
    "apply_node_conditions": [("n", "u", [{}])],
    "patch_policy_status": [(PolicyKey("ns", "p"), {})],
    "create_subresource": [("ns", "p", "eviction", {})],
    "review_token": [("t", "a")],
    "review_access": [({"user": "u"},)],
    "get_pod": [("ns", "p")],
    "list_pods": [("ns",)],
    "patch_pod": [("ns", "p", [])],
    "read_controller": [(*controller, "ns", "c") for controller in CONTROLLERS],
    "list_events_about": [("ns", "u")],
    "annotate_pod": [("ns", "p", "u", {})],
    "create_event": [({"metadata": {"namespace": "ns"}},)],
    "amend_event": [("ns", "e", {})],
    "read_lease": [(LEASE["namespace"], LEASE["name"])],
    "write_lease": [({"metadata": LEASE},), ({"metadata": {**LEASE, "resourceVersion": "1"}},)],
    "patch_secret": [("plimsoll", "plimsoll-history", {}, "1")],
    "read_claim": [("ns", "c")],
    "read_volume": [("v",)],
    "read_config_map": [(one["namespace"], one["name"]) for one in (REWARDS, EVICTIONS)],
    "write_config_map": [
        ({"metadata": REWARDS},),
        ({"metadata": {**REWARDS, "resourceVersion": "1"}},),
        ({"metadata": {**EVICTIONS, "resourceVersion": "1"}},),
    ],
}
"""Arguments for each method of Kube: one row for each kind of request that it makes."""

OPTIONAL = {
    "plimsoll-evaluator-evict": {"create_subresource", "read_claim", "read_volume"},
    "plimsoll-evaluator-conditions": {"apply_node_conditions", "patch_node_status"},
    "plimsoll-evaluator-custom-metrics": {"get_raw"},
    "plimsoll-evaluator-gangs": {
        "patch_pod",
        "read_controller",
        "list_events_about",
    },
}
"""Calls that only a component's flag enables, by the component's role."""
PATCHING = {"plimsoll-evaluator-gangs"}
"""Roles with the right to patch pods, which lifting a gate needs. The component `guard` narrows it."""
BUILT_IN = {"review_access": "system:auth-delegator"}
"""Calls that a ClusterRole of Kubernetes allows, bound by the components that need it."""
DISCOVERY = {"read_group"}
"""Calls that are not about resources: every account may discover APIs (system:discovery)."""


class Right(NamedTuple):
    """The attributes for RBAC. `namespace` and `name` are empty for requests about all."""

    group: str
    resource: str
    verb: str
    namespace: str
    name: str


def right(request):
    """The attributes that the API server derives from a request before authorization."""
    parts = request.path.strip("/").split("/")
    group = parts[1] if parts[0] == "apis" else ""
    rest = parts[3 if parts[0] == "apis" else 2 :]
    namespace = rest[1] if rest[0] == "namespaces" and len(rest) > 2 else ""
    resource, name, *sub = [*(rest[2:] if namespace else rest), "", ""][:3]
    verb = VERBS.get(request.method) or ("get" if name else "list")
    verb = "watch" if request.query.get("watch") == "true" else verb
    name = name or request.query.get("fieldSelector", "").partition("metadata.name=")[2]
    return Right(group, "/".join([resource, *filter(None, sub)]), verb, namespace, name)


@pytest.fixture
async def asked(aiohttp_server, tmp_path):
    """Method of Kube -> the rights it needs, found by calling it."""
    seen = []

    async def answer(request):
        seen.append(None if request.path.count("/") < 3 else right(request))
        return web.json_response({"metadata": {"name": "n", "uid": "u"}, "items": []})

    api = web.Application()
    api.router.add_route("*", "/{path:.*}", answer)
    url = await aiohttp_server(api)
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    client = await Kube.connect(str(path))
    found = {}
    for name, rows in [row for row in EXAMPLES.items() if hasattr(client, row[0])]:
        seen.clear()
        for arguments in rows:
            await call(getattr(client, name), arguments)
        assert len(seen) == len(rows), name
        assert (set(seen) == {None}) == (name in DISCOVERY), name
        found[name] = set(seen) - {None}
    await client.close()
    return found


async def call(method, arguments):
    keywords = {"timeout": 1.0} if "timeout" in inspect.signature(method).parameters else {}
    with contextlib.suppress(KubeError):  # another test checks the response
        if inspect.isasyncgenfunction(method):
            async for _ in method(*arguments, **keywords):
                pass
        else:
            await method(*arguments, **keywords)


@pytest.fixture
async def aiohttp_server():
    runners = []

    async def start(app):
        runner = web.AppRunner(app)
        await runner.setup()
        runners.append(runner)
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    yield start
    for runner in runners:
        await runner.cleanup()


def test_each_call_has_an_example():
    """A call without an example has unchecked rights."""
    public = {
        name
        for name, member in inspect.getmembers(Kube)
        if not name.startswith("_")
        and (inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member))
    }
    assert public - {"connect", "close"} == EXAMPLES.keys()


@pytest.fixture
def roles(with_components):
    """Role -> its rules and scope, for all roles bound to the evaluator's account."""
    objects = with_components("evaluator", "evict", "conditions", "custom-metrics", "gangs")
    bound = {
        (obj["roleRef"]["kind"], obj["roleRef"]["name"]): obj["metadata"].get("namespace", "")
        for obj in objects
        if obj["kind"] in {"ClusterRoleBinding", "RoleBinding"}
        and obj["subjects"]
        == [{"kind": "ServiceAccount", "name": "plimsoll-evaluator", "namespace": "plimsoll"}]
    }
    kinds = ("ClusterRole", "Role")
    found = {
        (obj["kind"], obj["metadata"]["name"]): obj["rules"]
        for obj in objects
        if obj["kind"] in kinds and obj["metadata"]["name"] != "plimsoll-stop"
    }
    assert bound.keys() == found.keys()
    return [(name, bound[kind, name], rules) for (kind, name), rules in found.items()]


def allows(rule, where, wanted):
    return (
        where in {"", wanted.namespace}
        and wanted.group in rule["apiGroups"]
        and (wanted.resource in rule["resources"] or "*" in rule["resources"])
        and wanted.verb in rule["verbs"]
        and wanted.name in rule.get("resourceNames", [wanted.name])
    )


def role_of(method, wanted):
    """The role, by name, that allows a method's call; the base's if no component does."""
    if wanted.name == EVICTIONS["name"]:
        return "plimsoll-evaluator-evict"
    return next((role for role, calls in OPTIONAL.items() if method in calls), "plimsoll-evaluator")


async def test_every_call_is_allowed_by_its_role(asked, roles):
    for method, rights in ((one, found) for one, found in asked.items() if one not in BUILT_IN):
        for wanted in rights:
            rules = [
                (rule, where)
                for name, where, all_rules in roles
                if name == role_of(method, wanted)
                for rule in all_rules
            ]
            assert any(allows(rule, where, wanted) for rule, where in rules), (method, wanted)


async def test_only_performed_calls_are_allowed(asked, roles):
    calls = [
        (role_of(method, wanted), wanted) for method, rights in asked.items() for wanted in rights
    ]
    for name, where, rules in roles:
        for rule in rules:
            for verb in rule["verbs"]:
                for resource in rule["resources"]:
                    one = {**rule, "verbs": [verb], "resources": [resource]}
                    used = [w for owner, w in calls if owner == name and allows(one, where, w)]
                    assert used, f"{name} may {verb} {resource}, and no call needs it"


async def test_rights_are_namespaced_where_possible(asked, roles):
    """Leases, ConfigMaps and Secrets are used in one namespace only; all else is cluster-wide."""
    for name, where, rules in roles:
        for rule in rules:
            narrow = set(rule["resources"]) <= {"leases", "configmaps", "secrets"}
            assert narrow == (where == "plimsoll"), (name, rule)


VERBS_OF_A_STOP = ("update", "patch", "delete")


def test_right_to_stop_is_a_role_of_its_own_that_nobody_has_by_default(with_components):
    objects = with_components("evaluator")
    (role,) = [
        o for o in objects if o["kind"] == "Role" and o["metadata"]["name"] == "plimsoll-stop"
    ]
    (rule,) = role["rules"]
    assert rule == {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": ["plimsoll-stop"],
        "verbs": ["get", "patch"],
    }
    assert not [o for o in objects if o.get("roleRef", {}).get("name") == "plimsoll-stop"]


async def test_evaluator_cannot_create_nodes_or_change_what_pods_run(roles):
    """What an apply to a deleted node, or a stolen token, must not be able to do."""
    rules = [rule for name, _, all_rules in roles if name not in PATCHING for rule in all_rules]
    for right_ in (
        Right("", "nodes", "create", "", ""),
        Right("", "pods", "patch", "ns", "p"),
        Right("", "pods", "delete", "ns", "p"),
        Right("", "secrets", "get", "ns", "s"),
        Right("", "secrets", "create", "plimsoll", ""),
        Right("", "secrets", "list", "plimsoll", ""),
        Right("", "configmaps", "get", "kube-system", "c"),
        Right("", "configmaps", "update", "plimsoll", "c"),
        *(Right("", "configmaps", verb, "plimsoll", "plimsoll-stop") for verb in VERBS_OF_A_STOP),
    ):
        assert not any(allows(rule, "", right_) for rule in rules), right_
