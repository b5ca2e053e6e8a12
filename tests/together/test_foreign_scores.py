"""Scores of a policy in another namespace, with --foreignScores=public: which policies use them, what statuses say, and what pages show."""

import contextlib
import json

import pytest

from evaluator.core.model.names import PolicyKey
from plimsoll import rfc3339
from plimsoll.http.types import Parts, Request
from tests.together.running import TASPOLICIES, RunningEvaluator, eventually, policy_body

pytestmark = pytest.mark.features("memory", "status", "pages", "history")

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
SINCE = "plimsoll.io/foreign-scores-since"
LONG_AGO = "2020-01-01T00:00:00Z"
SCORE = 3.1416
"""Its digits are in no other number of a page."""
FOREIGN, ABSENT = "violation_score_secret_p", "violation_score_secret_none"


def reading(metric, name, limit=1):
    rule = {"metricname": metric, "operator": "GreaterThan", "target": limit}
    ranking = {"metricname": metric, "operator": "LessThan", "target": 0}
    strategies = {"dontschedule": {"rules": [rule]}, "scheduleonmetric": {"rules": [ranking]}}
    return policy_body(name, namespace="shop", **strategies)


class World:
    """A node with a score of the policy secret/p, and an evaluator that may be started again."""

    def __init__(self, api, kube, folder, pair):
        self.api, self.kube, self.folder = api, kube, folder
        self.pair = {"cert": str(pair[0]), "key": str(pair[1])}

    async def prepare(self):
        await self.api.policies()
        for name in ("secret", "shop"):
            await self.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        made = await self.api.node("node-a")
        written = rfc3339.micros(rfc3339.parse(made["metadata"]["creationTimestamp"]))
        entry = {"score": SCORE, "at": written, "violated": False}
        memory = json.dumps({"systemUUID": "m", "scores": {"secret/p": entry}})
        node = "/api/v1/nodes/node-a"
        await self.api.merge(f"{node}/status", {"status": {"nodeInfo": {"systemUUID": "m"}}})
        await self.api.merge(node, {"metadata": {"annotations": {"plimsoll.io/memory": memory}}})
        half_life = {"plimsoll.io/memory": "3650d"}
        await self.make(policy_body("p", half_life, namespace="secret"))

    async def upgraded(self, at):
        """Let an evaluator of this version have run first at a time."""
        meta = {"name": "plimsoll-evaluator", "annotations": {SINCE: at}}
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta}
        await self.api.call("POST", LEASES, body | {"spec": {}})

    async def since(self):
        """The time of the upgrade, as the Lease keeps it."""
        (lease,) = (await self.api.get(LEASES))["items"]
        return lease["metadata"]["annotations"][SINCE]

    async def make(self, *bodies):
        for body in bodies:
            path = TASPOLICIES.format(body["metadata"]["namespace"])
            await self.api.call("POST", path, body)

    async def publish(self, value="public"):
        """Annotate the policy secret/p."""
        path = f"{TASPOLICIES.format('secret')}/p"
        await self.api.merge(path, {"metadata": {"annotations": {"plimsoll.io/score": value}}})

    @contextlib.asynccontextmanager
    async def running(self, **settings):
        made = RunningEvaluator(self.api, self.kube, self.folder, **self.pair, **settings)
        made.start()
        try:
            yield made
        finally:
            await made.stop()


@pytest.fixture
async def world(api, connect, tmp_path, authority):
    made = World(api, await connect(api.url), tmp_path, authority.issue("server"))
    await made.prepare()
    return made


async def compliance(evaluator, name, expected):
    """Wait for a status, which may be of an earlier evaluator, and for what this one decides; return the status."""

    async def agrees():
        status = await evaluator.status(name, "shop")
        decision = evaluator.core.loop.latest.policies.get(PolicyKey("shop", name))
        decided = decision and bool(decision.dontschedule) == (expected == "Violated")
        return status if decided and status.get("compliance") == expected else None

    return await eventually(agrees)


async def test_policy_from_before_the_upgrade_goes_on_and_its_status_says_what_to_do(world):
    await world.make(reading(FOREIGN, "old"))
    times = set()
    for _ in range(2):  # a restart is no upgrade
        async with world.running() as evaluator:
            await compliance(evaluator, "old", "Violated")
            valid = await evaluator.condition("old", namespace="shop")
            assert "no policy secret/p with the annotation plimsoll.io/score: public" in valid
            assert "--foreignScores=all" in valid
        times.add(await world.since())
    assert len(times) == 1
    await world.publish()
    async with world.running() as evaluator:

        async def is_valid():
            return "warning" not in await evaluator.condition("old", namespace="shop")

        await eventually(is_valid)
        await compliance(evaluator, "old", "Violated")


async def test_policy_from_after_the_upgrade_reads_a_score_only_while_it_is_public(world):
    await world.upgraded(LONG_AGO)
    await world.make(reading(FOREIGN, "new"), reading(ABSENT, "blind"))
    async with world.running() as evaluator:
        foreign = await compliance(evaluator, "new", "Unknown")
        absent = await compliance(evaluator, "blind", "Unknown")
        assert said(foreign) == said(absent).replace("secret_none", "secret_p").replace(
            "secret/none", "secret/p"
        )
        assert "no policy secret/p with the annotations plimsoll.io/memory and" in said(foreign)
        for value, expected in (("public", "Violated"), ("no", "Unknown"), ("public", "Violated")):
            await world.publish(value)
            await compliance(evaluator, "new", expected)


async def test_all_scores_are_read_if_the_flag_allows_it(world):
    await world.upgraded(LONG_AGO)
    await world.make(reading(FOREIGN, "new"))
    async with world.running(foreign_scores="all") as evaluator:
        await compliance(evaluator, "new", "Violated")
        assert "warning" not in await evaluator.condition("new", namespace="shop")


def said(status):
    """A status without times, as text."""
    conditions = [one | {"lastTransitionTime": ""} for one in status["conditions"]]
    return json.dumps(status | {"conditions": conditions})


PAGES = [
    f"{path}{suffix}"
    for path in (
        "/policies/shop",
        "/policies/shop/old",
        "/pods/shop",
        "/pods/shop/web",
        "/history/shop",
        "/history/shop/old",
    )
    for suffix in ("", ".json")
] + ["/explain/shop", "/explain/shop/old", "/explain?pod=shop/web", "/explain?history=shop/old"]


async def shown(evaluator, target):
    path, _, query = target.partition("?")
    name, _, value = query.partition("=")
    request = Request("GET", path, {name: [value]} if name else {}, {})
    response = await evaluator.service.operations(request)
    made = response.body
    assert response.status == 200, target
    return b"".join(made.parts if isinstance(made, Parts) else [made]).decode()


async def test_pages_of_a_namespace_show_no_figures_of_another_one(world):
    await world.make(reading(FOREIGN, "old"))
    await world.api.pod("web", namespace="shop", policy="old")
    for authorize, public, expected in (
        (False, False, True),
        (True, False, False),
        (True, True, True),
    ):
        if public:
            await world.publish()
        async with world.running(ops_authorize=authorize, ops_tls=authorize) as evaluator:
            await compliance(evaluator, "old", "Violated")
            found = {page: "3.14" in await shown(evaluator, page) for page in PAGES}
            assert found["/explain/shop/old"] == expected
            assert any(found.values()) == expected, found
