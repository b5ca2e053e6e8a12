"""Two tenants of the ops port with --opsAuthorize, each with the role of docs/pages.md for its namespace, on the real pages."""

import itertools
import json

import pytest

from evaluator.config import Settings
from evaluator.core.http import ops, ports
from evaluator.core.metrics import Metrics
from evaluator.core.model.api_status import AccessReview, ReviewedUser, TokenReview
from evaluator.core.model.pod import Pod, PodMeta, PodSpec, PodStatus
from evaluator.core.policy import parse
from evaluator.features.gangs.core.decide import decide
from evaluator.features.gangs.core.explain import GangExplainer
from evaluator.features.gangs.core.types import GangDecisions, GangTimings
from plimsoll.http.addresses import Address
from tests.evaluator.features.gangs.conftest import _capacity, _gangs, _resident
from tests.evaluator.features.gangs.outcomes import NOW
from tests.patience import patient
from tests.together.pages.conftest import pages_of_features

OWN, OTHER = "shop", "workshop"
"""One name is part of the other, as `search=shop/` would confuse them."""
ROLES = {
    tenant: [f"/plimsoll/{section}/{tenant}/*" for section in ("policies", "pods", "gangs")]
    for tenant in (OWN, OTHER)
}
FOREIGN = (OTHER, "secret", "concealed")
"""Texts in the other tenant's objects. The last one, in names of some of them and of metrics, is in no request."""

PAGES = [
    f"{path}{suffix}"
    for section, name in (("policies", "front"), ("pods", "web"), ("gangs", "batch"))
    for path in (f"/{section}/{OWN}", f"/{section}/{OWN}/{name}")
    for suffix in ("", "/", ".json")
] + [f"/explain/{OWN}", f"/explain/{OWN}/", f"/explain/{OWN}/front"]
MISSING = [f"/{section}/{OWN}/none" for section in ("policies", "pods", "gangs", "explain")]
INNOCENT = [
    "",
    "?search=",
    "?search=e",
    "?search=-",
    "?search=%2F",
    "?search=ork",
    "?search=shop/",
    "?state=all",
    "?state=waiting&page=2",
    "?page=0",
    "?page=99&search=e",
]
"""Parameters that select a part of a page."""
POINTING = [
    f"?pod={OTHER}/secret-pod",
    f"?pod={OTHER}%2Fsecret-uncached",
    f"?pod={OWN}/web&pod={OTHER}/secret-pod",
    "?pod=secret-pod",
    f"?pod={OWN}/../{OTHER}/secret-pod",
    f"?gang={OTHER}/secret-gang",
    "?gang=",
    "?node=node-a",
    "?nodes",
    "?metric=load",
    f"?search={OTHER}/",
]
"""Parameters that name another object, or search for it."""
OUTSIDE = [
    *("/", "/index.json", "/metrics", "/nodes", "/nodes/node-a", "/rules", "/explain", "/explain/"),
    *(
        path.format(section=section, name=name)
        for section, name in (
            ("policies", "secret-policy"),
            ("pods", "secret-pod"),
            ("gangs", "secret-gang"),
            ("explain", "secret-policy"),
        )
        for path in (
            "/{section}",
            "/{section}/",
            "/{section}//",
            "/{section}.json",
            "/{section}/.json",
            "/{section}/workshop",
            "/{section}/workshop/",
            "/{section}/workshop.json",
            "/{section}/workshop/{name}",
            "/{section}/workshop/{name}.json",
            "/{section}/work%73hop/{name}",
            "/{section}//workshop/{name}",
            "//{section}/workshop/{name}",
            "/{section}/shop/../workshop/{name}",
            "/{section}/shop/%2e%2e/workshop/{name}",
            "/{section}/shop/..%2Fworkshop%2F{name}",
            "/{section}/shop/..%2F..%2Fworkshop%2F{section}%2F{name}",
            "/{section}/shop%2F..%2Fworkshop/{name}",
            "/{section}/shop/%00/workshop",
            "/{section}/Workshop/{name}",
            "/{section}/shop;/workshop/{name}",
            "/{section}/*/{name}",
        )
    ),
]


class ApiServer:
    """Reviews tokens and permissions as kube-apiserver does: RBAC's rules for `nonResourceURLs`."""

    def __init__(self):
        self.asked = []

    async def review_token(self, token, audience=""):
        return TokenReview(True, ReviewedUser(token, {}, "1", []))

    async def review_access(self, spec):
        asked = spec["nonResourceAttributes"]
        self.asked.append(asked["path"])
        allowed = asked["verb"] == "get" and any(
            self._matches(rule, asked["path"]) for rule in ROLES.get(spec["user"], ())
        )
        return AccessReview(allowed=allowed)

    @staticmethod
    def _matches(rule, path):
        """As NonResourceURLMatches of k8s.io/kubernetes/pkg/apis/rbac/v1: a star ends a prefix."""
        return rule in {"*", path} or (rule.endswith("*") and path.startswith(rule.rstrip("*")))


class Tenants:
    """The port, the pods read from the API server for it, and its client."""

    def __init__(self, api, read, ask):
        self.api, self.read, self._ask = api, read, ask

    async def get(self, target, accept="text/html", tenant=OWN):
        return await self._ask(target, accept, tenant)


def policy(namespace, name, metric):
    rules = [{"metricname": metric, "operator": "GreaterThan", "target": 5}]
    meta = {"namespace": namespace, "name": name, "uid": f"{namespace}-{name}"}
    spec = {"strategies": {"dontschedule": {"rules": rules}, "deschedule": {"rules": rules}}}
    return parse.parse({"metadata": meta, "spec": spec})


def pod(namespace, name, policy="", message=""):
    labels = {"telemetry-policy": policy} if policy else {}
    meta = PodMeta(name=name, namespace=namespace, labels=labels)
    return Pod(meta, PodSpec(requests_extender=True), PodStatus("Pending"))


def gang_explainer():
    """A waiting gang of each tenant: the other tenant's goes first."""
    pods = [
        _resident(f"batch-{n}", "batch", 2, namespace=OWN, uid=f"a{n}", cpu=9) for n in range(2)
    ]
    pods += [
        _resident(
            f"concealed-{n}", "secret-gang", 2, namespace=OTHER, uid=f"b{n}", cpu=9, priority=9
        )
        for n in range(2)
    ]
    gangs = {gang.key: gang for gang in _gangs(pods)}
    capacity = _capacity(pods, **{"node-a": 4})
    decisions = decide(
        gangs.values(),
        capacity,
        GangDecisions().memory,
        GangTimings(),
        now=NOW,
        random=lambda: 0.0,
    )
    return GangExplainer(
        gangs=lambda: gangs,
        decisions=lambda: decisions,
        capacity=lambda: capacity,
        timings=GangTimings(),
        now=lambda: NOW,
        conceals=True,
    )


@pytest.fixture
async def tenants(authority, dial):
    read = []

    async def read_pod(namespace, name):
        read.append(namespace)
        return pod(namespace, name) if name in {"uncached", "secret-uncached"} else None

    pages = pages_of_features(read_pod=read_pod, gang_explainer=gang_explainer())
    pages.know(
        policy(OWN, "front", "load"),
        *(policy(OTHER, name, "concealed_metric") for name in ("secret-policy", "concealed")),
        pods=[
            (OWN, "web", "front"),
            *((OTHER, name, "secret-policy") for name in ("secret-pod", "concealed")),
        ],
    )
    cert, key = authority.issue("server")
    settings = Settings(cert=str(cert), key=str(key), ops_tls=True, ops_authorize=True)
    api = ApiServer()
    server = ports.ops_server(
        settings,
        api,
        Metrics(),
        pages.server.answer,
        pages.targets.resource_path,
        limits=patient(ops.LIMITS),
    )
    (address,) = await server.listen([Address("127.0.0.1", 0)])
    tls = authority.client()

    async def ask(target, accept, tenant):
        peer = await dial(address.port, tls)
        lines = [
            f"GET {target} HTTP/1.1",
            f"Host: localhost:{address.port}",
            f"Accept: {accept}",
            f"Authorization: Bearer {tenant}",
        ]
        reply = await peer.ask("\r\n".join([*lines, "", ""]).encode())
        peer.vanish()
        return reply

    yield Tenants(api, read, ask)
    await server.close()


def foreign_in(reply, target):
    """Return the texts of the other tenant's objects in a reply, without those that the request itself had."""
    text = reply.body.decode()
    return [word for word in FOREIGN if word in text and word not in target]


@pytest.mark.parametrize("accept", ["text/html", "application/json"])
async def test_tenant_sees_its_own_objects_and_no_others_on_every_page(tenants, accept):
    for target in map("".join, itertools.product(PAGES, INNOCENT)):
        reply = await tenants.get(target, accept)
        assert reply.status == 200, target
        assert foreign_in(reply, target) == [], target
    for target in map("".join, itertools.product(MISSING, INNOCENT)):
        reply = await tenants.get(target, accept)
        assert reply.status == 404, target
        assert foreign_in(reply, target) == [], target


@pytest.mark.parametrize("accept", ["text/html", "application/json"])
async def test_no_parameter_leads_out_of_a_tenants_namespace(tenants, accept):
    for target in map("".join, itertools.product([*PAGES, *MISSING], POINTING)):
        reply = await tenants.get(target, accept)
        assert reply.status in {200, 403, 404}, target
        assert foreign_in(reply, target) == [], target
    assert set(tenants.read) <= {OWN}


@pytest.mark.parametrize("accept", ["text/html", "application/json"])
async def test_no_path_leads_out_of_a_tenants_namespace(tenants, accept):
    for target in map("".join, itertools.product(OUTSIDE, ("", "?search=e", "?nodes"))):
        reply = await tenants.get(target, accept)
        assert reply.status in {403, 404}, target
        assert "concealed" not in reply.body.decode(), target
    assert set(tenants.read) <= {OWN}


async def test_lists_of_a_namespace_count_only_its_objects(tenants):
    for section, listed in (("policies", "policies"), ("pods", "pods"), ("gangs", "gangs")):
        page = json.loads((await tenants.get(f"/{section}/{OWN}.json")).body)
        assert len(page[listed]) == 1
        assert (page["window"]["found"], page["window"]["total"]) == (1, 1)


async def test_place_of_a_gang_is_among_those_of_its_namespace(tenants):
    page = json.loads((await tenants.get(f"/gangs/{OWN}/batch.json")).body)
    assert (page["rank"]["place"], page["rank"]["of"]) == (1, 1)
    assert (page["rank"]["before"], page["rank"]["beforeElsewhere"]) == ([], 0)
    text = (await tenants.get(f"/gangs/{OWN}/batch")).body.decode()
    assert "1 of 1" in text


@pytest.mark.parametrize(
    ("permission", "targets"),
    [
        (
            f"/pods/{OTHER}/secret-pod",
            [
                f"/pods/{OTHER}/secret-pod",
                f"/pods/{OTHER}/secret-pod/",
                f"/pods/{OTHER}/secret-pod.json",
                f"/pods/{OTHER}/secret%2Dpod",
                f"/pods/{OWN}/?pod={OTHER}/secret-pod",
                f"/pods?pod={OTHER}/secret-pod",
                f"/explain?pod={OTHER}/secret-pod",
            ],
        ),
        (f"/pods/{OTHER}/", [f"/pods/{OTHER}", f"/pods/{OTHER}/", f"/pods/{OTHER}.json"]),
        (f"/policies/{OTHER}/", [f"/policies/{OTHER}", f"/explain/{OTHER}/"]),
        (f"/policies/{OTHER}/x.json", [f"/policies/{OTHER}/x%2Ejson.json"]),
        ("/gangs", ["/gangs", "/gangs/", "/gangs.json", "/explain?gang="]),
        (f"/gangs/{OTHER}/g", [f"/gangs/{OTHER}/g", f"/explain?gang={OTHER}/g"]),
        ("/nodes", ["/nodes", "/explain?nodes"]),
        ("/nodes/node-a", ["/nodes/node-a", "/explain?node=node-a"]),
        ("/policies", ["/", "/index.json", "/policies", "/policies/", "/explain", "/explain/"]),
        ("/rules", ["/rules", "/explain?metric=m"]),
    ],
)
async def test_one_permission_is_asked_for_whatever_the_address_of_a_page(
    tenants, permission, targets
):
    """Also the denial names it, so that an administrator can grant it."""
    for target in targets:
        tenants.api.asked.clear()
        reply = await tenants.get(target, tenant=f"nobody-{target}")
        assert tenants.api.asked == [f"/plimsoll{permission}"], target
        assert reply.status == 403
        assert f'cannot get path \\"/plimsoll{permission}\\"' in reply.body.decode()
