"""Several small extenders over real sockets: order, nodes sent, and use of their responses."""

import contextlib

import pytest
from aiohttp import web

from sandbox.scheduler.extender import Extender, ExtenderError, ExtenderSpec
from sandbox.scheduler.extenders import Extenders
from sandbox.scheduler.preemption import Victims

EVERY_POD = {"managed_resources": frozenset()}
MANAGED = {"limits": {"telemetry/scheduling": 1}}


class StubExtender:
    """An extender that rejects some nodes, scores some, and records its requests."""

    def __init__(self, refuse=(), scores=None, status=200):
        self.refuse, self.points, self.status = refuse, scores or {}, status
        self.filtered = []
        self.preempted = []

    async def filter(self, request):
        names = (await request.json())["NodeNames"]
        self.filtered.append(names)
        kept = [name for name in names if name not in self.refuse]
        refused = {name: f"not {name}" for name in names if name in self.refuse}
        return web.json_response({"NodeNames": kept, "FailedNodes": refused}, status=self.status)

    async def preempt(self, request):
        victims = (await request.json())["NodeNameToMetaVictims"]
        self.preempted.append(list(victims))
        left = {name: one for name, one in victims.items() if name not in self.refuse}
        return web.json_response({"NodeNameToMetaVictims": left}, status=self.status)

    async def prioritize(self, _request):
        scores = [{"Host": name, "Score": score} for name, score in self.points.items()]
        return web.json_response(scores, status=self.status)


@pytest.fixture
async def listed():
    """Extenders as in a configuration, given (stub, its settings)."""
    async with contextlib.AsyncExitStack() as stack:

        async def begin(*members):
            app = web.Application()
            for number, (stand_in, _) in enumerate(members):
                app.router.add_post(f"/{number}/filter", stand_in.filter)
                app.router.add_post(f"/{number}/prioritize", stand_in.prioritize)
                app.router.add_post(f"/{number}/preempt", stand_in.preempt)
            runner = web.AppRunner(app)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            base = f"http://127.0.0.1:{runner.addresses[0][1]}"
            specs = [ExtenderSpec(f"{base}/{n}", **more) for n, (_, more) in enumerate(members)]
            return Extenders([await stack.enter_async_context(Extender(spec)) for spec in specs])

        yield begin


@pytest.fixture
def nodes(node):
    return [node("a"), node("b"), node("c")]


async def test_each_extender_receives_the_nodes_left_by_earlier_ones(listed, pod, nodes):
    first, second = StubExtender(refuse=["a"]), StubExtender(refuse=["a", "b"])
    extenders = await listed((first, EVERY_POD), (second, EVERY_POD))
    answer = await extenders.filter(pod(), nodes)
    assert answer.names == {"c"}
    assert answer.refused == {"a": "not a", "b": "not b"}
    assert (first.filtered, second.filtered) == ([["a", "b", "c"]], [["b", "c"]])


async def test_no_extender_is_called_without_nodes(listed, pod, nodes):
    first, second = StubExtender(refuse=["a", "b", "c"]), StubExtender()
    extenders = await listed((first, EVERY_POD), (second, EVERY_POD))
    assert (await extenders.filter(pod(), nodes)).names == frozenset()
    assert second.filtered == []


async def test_ignorable_extenders_are_called_last(listed, pod, nodes):
    ignorable, needed = StubExtender(refuse=["a"]), StubExtender(refuse=["b"])
    extenders = await listed((ignorable, EVERY_POD | {"ignorable": True}), (needed, EVERY_POD))
    assert (await extenders.filter(pod(), nodes)).names == {"c"}
    assert ignorable.filtered == [["a", "c"]]


async def test_scores_are_summed_by_weight(listed, pod, nodes):
    one, other = StubExtender(scores={"a": 10, "b": 4}), StubExtender(scores={"a": 1, "c": 10})
    extenders = await listed((one, EVERY_POD | {"weight": 2}), (other, EVERY_POD | {"weight": 3}))
    assert await extenders.scores(pod(), nodes) == {"a": 23, "b": 8, "c": 30}


async def test_only_extenders_that_manage_the_pod_are_called(listed, pod, nodes):
    policies, scorer = StubExtender(refuse=["a"]), StubExtender(scores={"a": 7})
    extenders = await listed((policies, {}), (scorer, EVERY_POD))
    assert (await extenders.filter(pod(), nodes)).names == {"a", "b", "c"}
    assert await extenders.scores(pod(), nodes) == {"a": 7}
    assert (await extenders.filter(pod(resources=MANAGED), nodes)).names == {"b", "c"}


async def test_failing_extender_is_ignored_only_if_ignorable(listed, pod, nodes):
    broken = StubExtender(status=503)
    forgiving = await listed(
        (broken, EVERY_POD | {"ignorable": True}), (StubExtender(["a"]), EVERY_POD)
    )
    assert (await forgiving.filter(pod(), nodes)).names == {"b", "c"}
    strict = await listed((broken, EVERY_POD))
    with pytest.raises(ExtenderError, match="code 503"):
        await strict.filter(pod(), nodes)
    assert await strict.scores(pod(), nodes) == {}


async def test_candidates_for_preemption_are_those_that_each_extender_leaves(listed, pod):
    first, silent, second = StubExtender(refuse=["a"]), StubExtender(), StubExtender(refuse=["b"])
    asked = await listed(
        (first, EVERY_POD), (silent, EVERY_POD | {"preempt": False}), (second, EVERY_POD)
    )
    victim = pod(metadata={"uid": "v"})
    left = await asked.preempt(pod(), dict.fromkeys("abc", Victims((victim,), 1)))
    assert left == {"c": Victims((victim,), 1)}
    assert [one.preempted for one in (first, silent, second)] == [
        [["a", "b", "c"]],
        [],
        [["b", "c"]],
    ]


@pytest.mark.parametrize("ignorable", [False, True])
async def test_extender_that_answers_404_fails_preemption_unless_ignorable(listed, pod, ignorable):
    """As an evaluator does that does not know the verb."""
    asked = await listed((StubExtender(status=404), EVERY_POD | {"ignorable": ignorable}))
    victims = {"a": Victims((pod(metadata={"uid": "v"}),))}
    if ignorable:
        assert await asked.preempt(pod(), victims) == victims
    else:
        with pytest.raises(ExtenderError, match=r"failed preempt with extender at URL .*code 404"):
            await asked.preempt(pod(), victims)
